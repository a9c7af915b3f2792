#pragma once

#include <string>

#include "reprise/base/json.h"
#include "reprise/kernels/product_table.h"

namespace reprise::cli {

/// The choices of a table that differ from the built-in rules, one line each: product, rows, times
/// of the rule and of the choice, and what the choice saves. Empty: no choice differs.
[[nodiscard]] std::string changed_products_text(const kernels::ProductTable& table);

/// Every measured product: a list of objects.
[[nodiscard]] Json products_to_json(const kernels::ProductTable& table);

}  // namespace reprise::cli
