// The findings of this process, for those parts of the bridge that make some themselves.
#pragma once

#include "locus/engine/finding.h"

namespace locus::bridge {

/// Keeps a finding for the report.
void keep_finding(engine::Finding finding);

}  // namespace locus::bridge
