#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::config {

/// The ops that stay outside piecewise graphs by default: attention and recurrent state updates,
/// under the names that vLLM's users write.
[[nodiscard]] std::span<const std::string_view> attention_ops() noexcept;

/// The KV-cache update ops. When vLLM cuts the program (not its generated code), it also splits at
/// these ops, because their layer name would keep equal pieces from sharing one artifact. The cache
/// writes of this engine have no layer name.
[[nodiscard]] std::span<const std::string_view> kv_cache_update_ops() noexcept;

/// True when every attention op is listed: attention then never runs inside a piecewise graph.
[[nodiscard]] bool contains_attention(std::span<const std::string> splitting_ops) noexcept;

/// True when the attention op of our models is listed: under vLLM's name, or as "attention".
[[nodiscard]] bool splits_attention(std::span<const std::string> splitting_ops);

/// True when an entry names `op` ("aten::add.default", "aten.add.default" or "aten::add"). An entry
/// without overload ("aten::add") names all overloads, an entry with one names only that one.
[[nodiscard]] bool is_splitting_op(std::string_view op, std::span<const std::string> splitting_ops);

}  // namespace reprise::config
