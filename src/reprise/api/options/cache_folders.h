#pragma once

#include <filesystem>

namespace reprise::api {

/// The folder of the compile cache: `root`, else REPRISE_CACHE_ROOT, else the user's cache folder.
[[nodiscard]] std::filesystem::path compile_cache_root(const std::filesystem::path& root);
/// The folder of packed weights: in REPRISE_CACHE_ROOT, else in the user's cache folder.
[[nodiscard]] std::filesystem::path packed_weights_root();
/// The folder of measured choices of products: in `root`, else in REPRISE_CACHE_ROOT, else in the
/// user's cache folder. Empty: no folder is known.
[[nodiscard]] std::filesystem::path tuned_products_root(const std::filesystem::path& root);
/// Whether the environment disables the compile cache.
[[nodiscard]] bool is_compile_cache_disabled();

}  // namespace reprise::api
