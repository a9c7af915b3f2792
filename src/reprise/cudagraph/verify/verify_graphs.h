#pragma once

#include <cstdint>
#include <string_view>

namespace reprise::cudagraph {

/// How much is proved about a captured graph before it may be replayed (--verify-graphs).
enum class VerifyGraphs : uint8_t {
  off,
  capture,  // the rules that can be checked from the nodes of one capture
  strict,   // also the rules that need a second capture, or work on the device
};

[[nodiscard]] std::string_view to_string(VerifyGraphs level) noexcept;
/// `option`: the name that a message shows. \throws InvalidArgument that lists the levels
[[nodiscard]] VerifyGraphs parse_verify_graphs(std::string_view option, std::string_view text);

}  // namespace reprise::cudagraph
