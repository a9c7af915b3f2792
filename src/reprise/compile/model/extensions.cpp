#include "reprise/compile/model/extensions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "reprise/base/error.h"

namespace reprise::compile {
namespace {

constexpr std::string_view kLetters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

bool is_identifier(std::string_view text) {
  return !text.empty() && text.find_first_not_of(kLetters) == std::string_view::npos &&
         (text.front() < '0' || text.front() > '9');
}

template <typename Item>
const Item* find(const std::vector<std::shared_ptr<const Item>>& items,
                 std::string_view name) noexcept {
  const auto found = std::ranges::find_if(items, [&](const auto& i) { return i->name == name; });
  return found == items.end() ? nullptr : found->get();
}

template <typename Item>
void add(std::vector<std::shared_ptr<const Item>>& items, std::string_view kind, Item item) {
  if (find(items, item.name) != nullptr) {
    throw InvalidArgument(
        fmt::format("extension: the {} '{}' is already registered", kind, item.name));
  }
  items.push_back(std::make_shared<const Item>(std::move(item)));
}

void require_identifier(std::string_view kind, std::string_view name) {
  if (is_identifier(name)) return;
  throw InvalidArgument(fmt::format(
      "extension: '{}' cannot name a {}: expected letters, digits and '_', not beginning with a "
      "digit",
      name,
      kind));
}

void require_function(std::string_view kind, std::string_view name, bool is_there) {
  if (is_there) return;
  throw InvalidArgument(fmt::format("extension: the {} '{}' has no function", kind, name));
}

template <typename Item>
std::vector<std::string> names(const std::vector<std::shared_ptr<const Item>>& items) {
  std::vector<std::string> all;
  for (const auto& item : items) all.push_back(item->name);
  return all;
}

}  // namespace

void Extensions::add_op(CustomOp op) {
  const size_t colons = op.name.find("::");
  const std::string_view name = op.name;
  if (colons == std::string::npos || !is_identifier(name.substr(0, colons)) ||
      !is_identifier(name.substr(colons + 2))) {
    throw InvalidArgument(
        fmt::format("extension: '{}' cannot name an op: expected namespace::op", op.name));
  }
  require_function("op", op.name, op.infer_types != nullptr);
  add(ops_, "op", std::move(op));
}

void Extensions::add_pass(UserPass pass) {
  require_identifier("pass", pass.name);
  require_function("pass", pass.name, pass.apply != nullptr);
  add(passes_, "pass", std::move(pass));
}

void Extensions::add_compiler(UserCompiler compiler) {
  constexpr std::array<std::string_view, 4> kTaken = {"eager", "inductor", "llvm", "nvrtc"};
  require_identifier("compiler", compiler.name);
  if (std::ranges::find(kTaken, compiler.name) != kTaken.end()) {
    throw InvalidArgument(fmt::format(
        "extension: '{}' is a backend of the engine; choose another name for the compiler",
        compiler.name));
  }
  require_function("compiler", compiler.name, compiler.create != nullptr);
  add(compilers_, "compiler", std::move(compiler));
}

const CustomOp* Extensions::find_op(std::string_view name) const noexcept {
  return find(ops_, name);
}
const UserPass* Extensions::find_pass(std::string_view name) const noexcept {
  return find(passes_, name);
}
const UserCompiler* Extensions::find_compiler(std::string_view name) const noexcept {
  return find(compilers_, name);
}

std::vector<const CustomOp*> Extensions::ops() const {
  std::vector<const CustomOp*> all;
  for (const auto& op : ops_) all.push_back(op.get());
  return all;
}
std::vector<std::string> Extensions::pass_names() const { return names(passes_); }
std::vector<std::string> Extensions::compiler_names() const { return names(compilers_); }

}  // namespace reprise::compile
