#include "reprise/structured_output/reference_graph.h"

#include "reprise/base/error.h"
#include "reprise/structured_output/output_spec.h"

namespace reprise::structured_output {
namespace {

void visit(const ReferenceGraph& graph,
           const std::string& name,
           std::set<std::string>& open,
           std::set<std::string>& done) {
  if (done.contains(name)) return;
  if (open.size() > static_cast<size_t>(kMaxNesting)) {
    throw InvalidArgument("references to references nested too deep");
  }
  if (!open.insert(name).second) throw InvalidArgument("a $ref leads to itself and nothing else");
  if (const auto found = graph.find(name); found != graph.end()) {
    for (const std::string& next : found->second) visit(graph, next, open, done);
  }
  open.erase(name);
  done.insert(name);
}

}  // namespace

void require_progress(const ReferenceGraph& graph) {
  std::set<std::string> done;
  std::set<std::string> open;
  for (const auto& [name, next] : graph) visit(graph, name, open, done);
}

}  // namespace reprise::structured_output
