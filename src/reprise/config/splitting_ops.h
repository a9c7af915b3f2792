#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace reprise::config {

/// The ops that stay outside piecewise graphs by default: attention and recurrent state updates.
/// Spelled as users of vLLM list them.
[[nodiscard]] std::span<const std::string_view> attention_ops() noexcept;

/// KV-cache updates: vLLM splits them off too when the program (not its generated code) is cut,
/// because their layer name would keep equal pieces from sharing one artifact. Ours have no names.
[[nodiscard]] std::span<const std::string_view> kv_cache_update_ops() noexcept;

/// True when every attention op is listed: attention then never runs inside a piecewise graph.
[[nodiscard]] bool contains_attention(std::span<const std::string> splitting_ops) noexcept;

/// True when attention as our models have it is listed: by vLLM's name, or as "attention".
[[nodiscard]] bool splits_attention(std::span<const std::string> splitting_ops);

/// True when `op` ("aten::add.default", "aten.add.default" or "aten::add") is named by an entry: an
/// entry without overload ("aten::add") names all of them, one with overload only that one.
[[nodiscard]] bool is_splitting_op(std::string_view op, std::span<const std::string> splitting_ops);

}  // namespace reprise::config
