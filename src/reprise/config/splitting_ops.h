#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::config {

/// The ops that stay outside of piecewise graphs by default: attention and updates of recurrent
/// state, with vLLM's names.
[[nodiscard]] std::span<const std::string_view> attention_ops() noexcept;

/// ATOM's default: its two attention ops, by its names.
[[nodiscard]] std::span<const std::string_view> atom_attention_ops() noexcept;

/// vLLM's ops that write the KV cache. If vLLM splits the traced program (not its generated code),
/// it also splits at these ops: they have a layer name as a constant, which would make otherwise
/// equal pieces different. The cache writes of this engine have no layer name.
[[nodiscard]] std::span<const std::string_view> kv_cache_update_ops() noexcept;

/// Whether all attention ops are listed. Then attention never runs inside a piecewise graph.
[[nodiscard]] bool contains_attention(std::span<const std::string> splitting_ops) noexcept;

/// Whether the attention op of Reprise's models is listed, under vLLM's or ATOM's name or as
/// "attention".
[[nodiscard]] bool splits_attention(std::span<const std::string> splitting_ops);

/// Whether an entry names `op` ("aten::add.default", "aten.add.default" or "aten::add"). An entry
/// without an overload ("aten::add") names all overloads, an entry with one names only this
/// overload.
[[nodiscard]] bool is_splitting_op(std::string_view op, std::span<const std::string> splitting_ops);

}  // namespace reprise::config
