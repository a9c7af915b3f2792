#include "reprise/cudagraph/verify/capture_verifier.h"

#include <fmt/format.h>

#include <algorithm>

namespace reprise::cudagraph {
namespace {

// A rule that is broken in one layer is often broken in every layer, so only this many violations
// are kept.
constexpr size_t kMostViolations = 4;

}  // namespace

std::string describe_range(const MemoryMap& memory, uintptr_t begin, uintptr_t end) {
  const MemoryRegion* region = memory.find(begin);
  if (region == nullptr) return fmt::format("{} bytes at {:#x}", end - begin, begin);
  return fmt::format("{} + {}, {} bytes", region->name, begin - region->begin, end - begin);
}

void CaptureVerifier::begin_key() {
  written_.clear();
  last_constant_ = nullptr;
  proof_ = {};
}

void CaptureVerifier::add(const CapturedNode& node) {
  if (!node.tells_uses) ++proof_.num_untold;
  new_.clear();
  for (const NodeUse& use : node.uses) check(node, use);
  for (const NodeUse& use : new_) written_.add(use.begin, use.begin + use.bytes);
  ++proof_.num_nodes;
}

void CaptureVerifier::add_eager_write(uintptr_t begin, size_t bytes) {
  written_.add(begin, begin + bytes);
}

void CaptureVerifier::check(const CapturedNode& node, const NodeUse& use) {
  const uintptr_t end = use.begin + use.bytes;
  uintptr_t at = use.begin;
  while (at < end) {
    const MemoryRegion* region = memory_->find(at);
    if (region == nullptr) {
      report(GraphRule::uses_known_memory, node, at, end, "uses memory without a name");
      return;
    }
    const uintptr_t stop = std::min(end, region->end());
    switch (region->role) {
      case MemoryRole::constant:
        last_constant_ = region;
        [[fallthrough]];
      case MemoryRole::staged:
        if (use.writes) {
          report(GraphRule::writes_own_memory,
                 node,
                 at,
                 stop,
                 region->role == MemoryRole::constant ? "writes a constant"
                                                      : "writes an input of the step");
        }
        break;
      case MemoryRole::kept:
        break;
      case MemoryRole::foreign:
        report(GraphRule::keeps_lifetimes_apart,
               node,
               at,
               stop,
               "uses memory of work that may run between the nodes of this key");
        break;
      case MemoryRole::workspace:
        if (use.reads && proof_.num_untold == 0) {
          const uintptr_t missing = written_.first_missing(at, stop);
          if (missing < stop) {
            report(GraphRule::reads_defined_memory,
                   node,
                   missing,
                   stop,
                   "reads memory that no earlier node of the key has written");
          }
        }
        if (use.writes) new_.push_back({.begin = at, .bytes = stop - at});
        break;
    }
    at = stop;
  }
}

void CaptureVerifier::report(GraphRule rule,
                             const CapturedNode& node,
                             uintptr_t begin,
                             uintptr_t end,
                             std::string_view problem) {
  if (++proof_.num_violations > kMostViolations) return;
  proof_.violations.push_back({.rule = rule,
                               .node = proof_.num_nodes,
                               .kernel = std::string(node.kernel),
                               .place = place_of(node),
                               .buffer = describe_range(*memory_, begin, end),
                               .problem = std::string(problem)});
}

std::string CaptureVerifier::place_of(const CapturedNode& node) const {
  for (const NodeUse& use : node.uses) {
    const MemoryRegion* region = memory_->find(use.begin);
    if (region != nullptr &&
        (region->role == MemoryRole::constant || region->role == MemoryRole::kept)) {
      return "with " + region->name;
    }
  }
  return last_constant_ == nullptr ? "" : "after " + last_constant_->name;
}

}  // namespace reprise::cudagraph
