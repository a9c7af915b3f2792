#include "reprise/chat_template/sandbox.h"

#include <fmt/format.h>

#include <algorithm>

#include "reprise/chat_template/unicode.h"

namespace reprise::chat_template {
namespace {

// This many steps take less than 10 ms, and the cost of reading the clock after them is negligible.
constexpr uint64_t kStepsBetweenChecks = 8192;

}  // namespace

Sandbox::~Sandbox() {
  for (const auto& held : namespaces_) held->attributes.clear();
}

void Sandbox::fail(std::string_view message) const {
  throw TemplateError(TemplateError::Cause::runtime, at, message);
}

void Sandbox::fail_limit(std::string_view message) const {
  throw TemplateError(TemplateError::Cause::limit, at, message);
}

void Sandbox::check_work() {
  if (steps_ > limits_.max_steps) fail_limit("too many steps");
  work_.check();
  next_check_ = std::min(limits_.max_steps, steps_ + kStepsBetweenChecks);
}

void Sandbox::check_text_size(uint64_t bytes) {
  if (bytes > limits_.max_output_bytes) {
    fail_limit(
        fmt::format("text of {} bytes, at most {} are allowed", bytes, limits_.max_output_bytes));
  }
}

void Sandbox::check_item_count(uint64_t count) {
  if (count > limits_.max_live_bytes / sizeof(Value)) {
    fail_limit(fmt::format("sequence of {} items takes too much memory", count));
  }
}

void Sandbox::check_extent(const Extent& extent) const {
  if (extent.depth > limits_.max_value_depth) fail_limit("lists or dicts nest too deep");
  // Within the step limit, no operation could read a larger value. This check also ends the
  // doubling of x = [x, x].
  if (extent.weight > limits_.max_steps) fail_limit("a list or dict is too large");
}

void Sandbox::hold(size_t bytes) {
  live_bytes_ += bytes;
  if (live_bytes_ > limits_.max_live_bytes) {
    live_bytes_ -= bytes;
    fail_limit(fmt::format("values take more than {} bytes", limits_.max_live_bytes));
  }
}

void Sandbox::grow_buffer(size_t by, size_t new_size) {
  check_text_size(new_size);
  charge_scan(by);
  hold(by);
}

template <typename T>
std::shared_ptr<T> Sandbox::account(std::remove_const_t<T> object, size_t bytes) {
  hold(bytes);
  size_t* live = &live_bytes_;
  return std::shared_ptr<T>(new std::remove_const_t<T>(std::move(object)), [live, bytes](T* held) {
    *live -= bytes;
    delete held;
  });
}

Value Sandbox::text(std::string bytes, bool is_markup) {
  check_text_size(bytes.size());
  charge_scan(bytes.size());
  const size_t length = count_code_points(bytes);
  const size_t cost = sizeof(Text) + bytes.size();
  return Value(account<const Text>(Text{std::move(bytes), length, is_markup}, cost));
}

Value Sandbox::sequence(Sequence sequence) {
  charge(1 + sequence.items.size() / 4);
  sequence.extent = {.depth = 1};
  for (const Value& item : sequence.items) sequence.extent.add(extent_of(item));
  check_extent(sequence.extent);
  const size_t cost = sizeof(Sequence) + sequence.items.size() * sizeof(Value);
  return Value(account<const Sequence>(std::move(sequence), cost));
}

Value Sandbox::dict(Dict dict) {
  charge(1 + dict.size());
  check_extent(dict.extent());
  const size_t cost = sizeof(Dict) + dict.size() * (sizeof(Dict::Entry) + 48);  // 48: index node
  return Value(account<const Dict>(std::move(dict), cost));
}

Value Sandbox::iterator(std::vector<Value> items) {
  charge(1 + items.size() / 4);
  Iterator iterator{.items = std::move(items)};
  for (const Value& item : iterator.items) iterator.extent.add(extent_of(item));
  check_extent(iterator.extent);
  const size_t cost = sizeof(Iterator) + iterator.items.size() * sizeof(Value);
  return Value(account<Iterator>(std::move(iterator), cost));
}

Value Sandbox::name_space() {
  hold(256);
  namespaces_.push_back(std::make_shared<Namespace>());
  return Value(namespaces_.back());
}

Value Sandbox::callable(Callable callable) {
  Value created(account<const Callable>(std::move(callable), sizeof(Callable)));
  check_extent(extent_of(created));
  return created;
}

Value Sandbox::undefined(std::string message) {
  return Value(Undefined{std::make_shared<const std::string>(std::move(message))});
}

}  // namespace reprise::chat_template
