// The report for code hosts: GitLab's Code Quality, and the page of a job as Markdown.
#pragma once

#include <string>

#include "locus/engine/report.h"

namespace locus::report {

/// A list of issues as GitLab reads it (the form of Code Climate). Paths count from `root`.
std::string render_gitlab(const engine::Report& report, const std::string& directory, const std::string& root);

/// The verdict, a table of the findings, and their fixes as diffs.
std::string render_markdown(const engine::Report& report, const std::string& directory, const std::string& root);

}  // namespace locus::report
