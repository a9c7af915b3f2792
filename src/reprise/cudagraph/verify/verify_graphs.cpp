#include "reprise/cudagraph/verify/verify_graphs.h"

#include <fmt/format.h>

#include "reprise/base/error.h"

namespace reprise::cudagraph {

std::string_view to_string(VerifyGraphs level) noexcept {
  switch (level) {
    case VerifyGraphs::off:
      return "off";
    case VerifyGraphs::capture:
      return "capture";
    case VerifyGraphs::strict:
      return "strict";
  }
  return "unknown";
}

VerifyGraphs parse_verify_graphs(std::string_view option, std::string_view text) {
  for (const VerifyGraphs level :
       {VerifyGraphs::off, VerifyGraphs::capture, VerifyGraphs::strict}) {
    if (text == to_string(level)) return level;
  }
  throw InvalidArgument(
      fmt::format("{} {}: must be off, capture or strict; capture proves each graph from its "
                  "nodes, strict also captures each graph twice and compares",
                  option,
                  text));
}

}  // namespace reprise::cudagraph
