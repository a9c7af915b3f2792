#include "reprise/api/options/cache_folders.h"

#include <cstdlib>
#include <string>

#include "reprise/compile/cache/compile_cache.h"

namespace reprise::api {
namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

bool is_on(const char* name) {
  const std::string value = environment(name);
  return value == "1" || value == "true";
}

/// In REPRISE_CACHE_ROOT, else beside the user's compile cache. Empty: neither is known.
std::filesystem::path folder_beside_the_cache(const char* name) {
  const std::string from_environment = environment("REPRISE_CACHE_ROOT");
  const std::filesystem::path compiled = compile_cache_root({});
  if (compiled.empty()) return {};
  const std::filesystem::path base =
      from_environment.empty() ? compiled.parent_path() : std::filesystem::path(from_environment);
  return base / name;
}

}  // namespace

std::filesystem::path compile_cache_root(const std::filesystem::path& root) {
  if (!root.empty()) return root;
  const std::string from_environment = environment("REPRISE_CACHE_ROOT");
  if (!from_environment.empty()) return from_environment;
  return compile::default_cache_root(environment("HOME"), environment("XDG_CACHE_HOME"));
}

std::filesystem::path packed_weights_root() { return folder_beside_the_cache("packed_weights"); }

std::filesystem::path tuned_products_root(const std::filesystem::path& root) {
  return root.empty() ? folder_beside_the_cache("tuned_products") : root / "tuned_products";
}

bool is_compile_cache_disabled() {
  return is_on("REPRISE_DISABLE_COMPILE_CACHE") || is_on("VLLM_DISABLE_COMPILE_CACHE");
}

}  // namespace reprise::api
