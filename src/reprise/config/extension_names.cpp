#include "reprise/config/extension_names.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "reprise/base/error.h"
#include "reprise/base/nearest_name.h"

namespace reprise::config {
namespace {

constexpr std::array kPassKeys = {kBeforeSplit, kBeforePasses, kAfterPasses};

std::string nearest(std::string_view name, const std::vector<std::string>& names) {
  const std::vector<std::string_view> candidates(names.begin(), names.end());
  return did_you_mean(name, candidates);
}

void check_name(std::string_view key, const Json& value, const ExtensionNames& names) {
  if (!value.is_string()) {
    throw InvalidArgument(
        fmt::format("inductor_passes.{}: expected the name of a pass, or a list of names, got {}",
                    key,
                    value.dump()));
  }
  const auto& name = value.get_ref<const std::string&>();
  if (std::ranges::find(names.passes, name) != names.passes.end()) return;
  throw InvalidArgument(fmt::format(
      "inductor_passes.{}: no pass is called '{}'{}; {}",
      key,
      name,
      nearest(name, names.passes),
      names.passes.empty()
          ? std::string("no passes are registered: load a plug-in that has some with --extension "
                        "FILE, or add them to EngineArgs::extensions")
          : fmt::format("there are {}", fmt::join(names.passes, ", "))));
}

}  // namespace

std::vector<std::string> user_passes(const Json& inductor_passes, std::string_view key) {
  const auto found = inductor_passes.find(key);
  if (found == inductor_passes.end()) return {};
  if (found->is_string()) return {found->get<std::string>()};
  return found->get<std::vector<std::string>>();
}

void check_inductor_passes(const Json& inductor_passes, const ExtensionNames& names) {
  for (const auto& [key, value] : inductor_passes.items()) {
    if (std::ranges::find(kPassKeys, key) == kPassKeys.end()) {
      throw InvalidArgument(
          fmt::format("inductor_passes: '{}' is not one of {} (before the program is split), {} "
                      "(before the passes of the engine) and {} (after them){}",
                      key,
                      kBeforeSplit,
                      kBeforePasses,
                      kAfterPasses,
                      did_you_mean(key, kPassKeys)));
    }
    if (!value.is_array()) {
      check_name(key, value, names);
      continue;
    }
    for (const Json& name : value) check_name(key, name, names);
  }
}

void check_backend(const std::string& backend, const ExtensionNames& names) {
  std::vector<std::string> known = {"eager", "inductor"};
  if (backend.empty() || std::ranges::find(known, backend) != known.end()) return;
  known.insert(known.end(), names.compilers.begin(), names.compilers.end());
  if (std::ranges::find(known, backend) != known.end()) return;
  std::string list;
  for (const std::string& name : known) list += fmt::format(", \"{}\"", name);
  throw InvalidArgument(fmt::format(
      "backend: expected one of \"\"{}, got \"{}\"{}{}",
      list,
      backend,
      nearest(backend, known),
      names.compilers.empty() ? "; a compiler of your own comes with --extension FILE" : ""));
}

}  // namespace reprise::config
