// Writes docs/findings: one page per code, from locus/engine/codes.def (the words) and docs/findings/src (the
// programs). With --check it writes nothing and says which pages are out of date.
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "locus/engine/codes.h"

namespace {

namespace fs = std::filesystem;
using locus::engine::all_codes;
using locus::engine::CodeInfo;
using locus::engine::Severity;

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The fenced blocks of a source file: the wrong program, then one for each way to fix it.
std::vector<std::string> programs_of(const fs::path& path) {
  constexpr std::string_view kOpen = "```python\n", kClose = "\n```\n";
  const std::string text = read(path);
  std::vector<std::string> programs;
  for (std::size_t at = 0; (at = text.find(kOpen, at)) != text.npos;) {
    const std::size_t end = text.find(kClose, at);
    if (end == text.npos) throw std::runtime_error(path.string() + ": a block is not closed");
    programs.push_back(text.substr(at, end + kClose.size() - at));
    at = end + kClose.size();
  }
  if (programs.size() != 4) throw std::runtime_error(path.string() + ": expected 4 blocks of Python");
  return programs;
}

std::string page(const CodeInfo& code, const fs::path& source) {
  const std::string name(code.code);
  const std::vector<std::string> programs = programs_of(source);
  std::string out = "<!-- Made by tools/make_findings_docs.cc from locus/engine/codes.def and docs/findings/src/" +
                    name + ".md; change those. -->\n\n";
  out.append("# ").append(name).append(": ").append(code.title).append("\n\n");
  out.append(code.severity == Severity::kError ? "Error" : "Warning");
  out.append(", reason `").append(code.reason).append("`. ").append(code.what).append("\n\n");
  out.append("## Why it happens\n\n").append(code.why).append("\n\n");
  out.append("## A program that does it\n\n").append(programs[0]).append("\n");
  out.append("## Three ways to fix it\n");
  for (std::size_t i = 0; i < code.fixes.size(); ++i) {
    out.append("\n### ").append(std::to_string(i + 1)).append(". ").append(code.fixes[i]).append("\n\n");
    out.append(programs[i + 1]);
  }
  return out;
}

std::string index() {
  std::string out =
      "<!-- Made by tools/make_findings_docs.cc from locus/engine/codes.def; change that. -->\n\n"
      "# What Locus finds\n\n"
      "An error is what PyTorch would stop at on a real card, or what has no defined result there. A warning is what "
      "runs, and may still give wrong values.\n\n"
      "| code | reason | | what |\n| --- | --- | --- | --- |\n";
  for (const CodeInfo& code : all_codes()) {
    const std::string name(code.code);
    out.append("| [").append(name).append("](").append(name).append(".md) | `").append(code.reason).append("` | ");
    out.append(to_string(code.severity)).append(" | ").append(code.title).append(" |\n");
  }
  return out;
}

int run(const fs::path& folder, bool check) {
  std::map<fs::path, std::string> pages = {{folder / "README.md", index()}};
  for (const CodeInfo& code : all_codes()) {
    const std::string name = std::string(code.code) + ".md";
    pages[folder / name] = page(code, folder / "src" / name);
  }
  int stale = 0;
  for (const auto& [path, text] : pages) {
    if (!check) {
      std::ofstream(path, std::ios::binary) << text;
    } else if (!fs::exists(path) || read(path) != text) {
      std::cerr << path.string() << " is out of date\n";
      ++stale;
    }
  }
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_regular_file() && !pages.contains(entry.path())) {
      std::cerr << entry.path().string() << " belongs to no code\n";
      ++stale;
    }
  }
  if (stale > 0) std::cerr << "make_findings_docs docs/findings writes the pages\n";
  return stale > 0 ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  const bool check = argc == 3 && std::string_view(argv[2]) == "--check";
  if (argc != 2 && !check) {
    std::cerr << "usage: make_findings_docs docs/findings [--check]\n";
    return 2;
  }
  try {
    return run(argv[1], check);
  } catch (const std::exception& error) {
    std::cerr << "make_findings_docs: " << error.what() << "\n";
    return 1;
  }
}
