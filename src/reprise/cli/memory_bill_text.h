#pragma once

#include <string>
#include <vector>

#include "reprise/api/loading/memory_bill.h"
#include "reprise/base/json.h"

namespace reprise::cli {

/// The lines of a bill: the budget, then one line for each use, at most 80 columns wide.
[[nodiscard]] std::vector<std::string> memory_bill_lines(const api::MemoryBill& bill);

/// Keys: budget, total, limit, others, weights, states, kv_cache, num_blocks, activations, graphs,
/// buffers (null: not known before the start), rest, cache_is_limit. In bytes.
[[nodiscard]] Json to_json(const api::MemoryBill& bill);
/// The measured memory bill of a start, and "reported": the bytes that the device counts as used.
[[nodiscard]] Json to_json(const api::StartupReport& report);

}  // namespace reprise::cli
