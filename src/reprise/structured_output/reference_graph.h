#pragma once

#include <map>
#include <set>
#include <string>

namespace reprise::structured_output {

/// The names of the definitions that each definition may refer to before it writes anything.
using ReferenceGraph = std::map<std::string, std::set<std::string>>;

/// A definition that leads back to itself without writing anything has no answer.
/// \throws InvalidArgument when `graph` has a cycle
void require_progress(const ReferenceGraph& graph);

}  // namespace reprise::structured_output
