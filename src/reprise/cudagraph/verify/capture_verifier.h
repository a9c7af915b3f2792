#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reprise/cudagraph/verify/byte_set.h"
#include "reprise/cudagraph/verify/graph_rule.h"
#include "reprise/cudagraph/verify/memory_map.h"

namespace reprise::cudagraph {

/// Memory that a captured launch uses, from its first to its last byte.
struct NodeUse {
  uintptr_t begin = 0;
  size_t bytes = 0;
  bool reads = false;
  bool writes = false;

  friend bool operator==(const NodeUse&, const NodeUse&) = default;
};

/// One captured launch. Borrowed for the call.
struct CapturedNode {
  std::string_view kernel;
  uint32_t num_blocks = 0;
  /// Whether `uses` has every byte that the launch uses. Kernels of a library may not say which
  /// bytes they use.
  bool tells_uses = true;
  std::span<const NodeUse> uses;
  std::span<const std::byte> args;  // the bytes that the capture kept
};

/// The result for a key after its last node.
struct KeyProof {
  size_t num_nodes = 0;
  size_t num_untold = 0;              // nodes that do not tell their uses
  size_t num_violations = 0;          // all of them
  std::vector<Violation> violations;  // the first few

  [[nodiscard]] bool is_whole() const noexcept { return num_violations == 0 && num_untold == 0; }
};

/// Proves the rules about memory over the nodes of one key after the other, in the order in which a
/// replay runs them. The verifier sees addresses and never reads memory. Belongs to one thread. A
/// node that does not tell its uses may have written any workspace, so later reads of workspace are
/// not judged.
class CaptureVerifier {
 public:
  /// `memory` must outlive the verifier. Its regions may change between keys.
  explicit CaptureVerifier(const MemoryMap& memory) noexcept : memory_(&memory) {}

  void begin_key();
  void add(const CapturedNode& node);
  /// Work outside of graphs, which runs in each replay too, writes this memory.
  void add_eager_write(uintptr_t begin, size_t bytes);
  [[nodiscard]] const KeyProof& proof() const noexcept { return proof_; }

 private:
  void check(const CapturedNode& node, const NodeUse& use);
  void report(GraphRule rule,
              const CapturedNode& node,
              uintptr_t begin,
              uintptr_t end,
              std::string_view problem);
  [[nodiscard]] std::string place_of(const CapturedNode& node) const;

  const MemoryMap* memory_;
  ByteSet written_;                              // workspace that the key has written so far
  std::vector<NodeUse> new_;                     // workspace that the current node writes
  const MemoryRegion* last_constant_ = nullptr;  // that a node read
  KeyProof proof_;
};

/// "graph pool + 4096, 512 bytes".
[[nodiscard]] std::string describe_range(const MemoryMap& memory, uintptr_t begin, uintptr_t end);

}  // namespace reprise::cudagraph
