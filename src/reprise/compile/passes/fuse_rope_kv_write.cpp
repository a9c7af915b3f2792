#include "reprise/compile/passes/fuse_rope_kv_write.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "reprise/compile/passes/program_edit.h"

namespace reprise::compile {
namespace {

using program::kNoValue;
using program::Node;
using program::Program;
using program::ValueId;

struct Norms {
  size_t q = 0;  // index of the node that computes the norm of q
  size_t k = 0;
};

class RopeKvWriteFuser {
 public:
  RopeKvWriteFuser(Program& program, const NodePredicate& has_kernel, bool with_norms)
      : program_(program), edit_(program), has_kernel_(has_kernel), with_norms_(with_norms) {}

  size_t run() && {
    size_t num_rewrites = 0;
    for (size_t i = 0; i < program_.nodes.size(); ++i) {
      if (program_.nodes[i].op == OpCode::kv_write && fuse(i)) ++num_rewrites;
    }
    std::move(edit_).finish();
    return num_rewrites;
  }

 private:
  bool fuse(size_t write_index) {
    Node& write = program_.nodes[write_index];
    const std::optional<size_t> rope_index = edit_.definition(write.inputs[0], OpCode::rope);
    if (!rope_index) return false;
    const Node& rope = program_.nodes[*rope_index];
    // The write must use the rotated keys (result 1). A program could also write the rotated
    // queries.
    if (write.inputs[0] != rope.outputs[1] || edit_.num_uses(rope.outputs[1]) != 1) return false;
    const std::span<const size_t> users = edit_.users(rope.outputs[0]);
    if (std::any_of(users.begin(), users.end(), [&](size_t user) { return user <= write_index; })) {
      return false;
    }
    ValueId q = rope.inputs[0];
    ValueId k = rope.inputs[1];
    Node fused{
        .op = OpCode::rope_kv_write, .attributes = write.attributes, .location = write.location};
    ValueId q_norm = kNoValue;
    ValueId k_norm = kNoValue;
    const std::optional<Norms> norms = with_norms_ ? norms_before(rope) : std::nullopt;
    if (with_norms_ && !norms) return false;
    if (norms) {
      const Node& norm = program_.nodes[norms->q];
      q = norm.inputs[0];
      k = program_.nodes[norms->k].inputs[0];
      q_norm = norm.inputs[1];
      k_norm = program_.nodes[norms->k].inputs[1];
      fused.attributes.epsilon = norm.attributes.epsilon;
    }
    fused.inputs = {q,
                    k,
                    write.inputs[1],
                    rope.inputs[2],
                    rope.inputs[3],
                    write.inputs[2],
                    write.inputs[3],
                    write.inputs[4],
                    q_norm,
                    k_norm};
    fused.outputs = {rope.outputs[0], write.outputs[0], write.outputs[1]};
    if (has_kernel_ && !has_kernel_(program_, fused)) return false;
    write = std::move(fused);
    edit_.erase(*rope_index);
    if (norms) {
      edit_.erase(norms->q);
      edit_.erase(norms->k);
    }
    return true;
  }

  [[nodiscard]] std::optional<Norms> norms_before(const Node& rope) const {
    const std::optional<size_t> q = edit_.definition(rope.inputs[0], OpCode::rms_norm);
    const std::optional<size_t> k = edit_.definition(rope.inputs[1], OpCode::rms_norm);
    if (!q || !k || edit_.num_uses(rope.inputs[0]) != 1 || edit_.num_uses(rope.inputs[1]) != 1) {
      return std::nullopt;
    }
    if (program_.nodes[*q].attributes.epsilon != program_.nodes[*k].attributes.epsilon) {
      return std::nullopt;
    }
    return Norms{*q, *k};
  }

  Program& program_;
  ProgramEdit edit_;
  const NodePredicate& has_kernel_;
  bool with_norms_;
};

}  // namespace

size_t fuse_rope_kv_write(Program& program, const NodePredicate& has_kernel) {
  return RopeKvWriteFuser(program, has_kernel, /*with_norms=*/false).run();
}

size_t fuse_qk_norm_rope_kv_write(Program& program, const NodePredicate& has_kernel) {
  return RopeKvWriteFuser(program, has_kernel, /*with_norms=*/true).run();
}

}  // namespace reprise::compile
