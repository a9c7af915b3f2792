#include "reprise/tokenizer/component.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reprise/base/error.h"
#include "reprise/base/nearest_name.h"
#include "reprise/base/text/utf8.h"

namespace reprise::tokenizer {

Component::Component(const Json& value, std::string_view file, std::string pointer, int nesting)
    : value_(&value), file_(file), pointer_(std::move(pointer)), nesting_(nesting) {}

const Json* Component::find(std::string_view name) const {
  if (!value_->is_object()) fail("expected an object");
  const auto member = value_->find(name);
  return member == value_->end() ? nullptr : &*member;
}

bool Component::has(std::string_view name) const {
  const Json* member = find(name);
  return member != nullptr && !member->is_null();
}

Component Component::at(std::string_view name) const {
  const Json* member = find(name);
  if (member == nullptr) fail(fmt::format("member '{}' is missing", name));
  return {*member, file_, fmt::format("{}/{}", pointer_, name), nesting_};
}

std::vector<Component> Component::elements(std::string_view name) const {
  Component list = at(name);
  list.nesting_ += 1;
  if (list.nesting_ > kMaxNesting) {
    list.fail(fmt::format("nested deeper than {} levels", kMaxNesting), "E_DEPTH");
  }
  return list.elements();
}

std::vector<Component> Component::elements() const {
  if (!value_->is_array()) fail("expected an array");
  std::vector<Component> result;
  result.reserve(value_->size());
  for (size_t i = 0; i < value_->size(); ++i) {
    result.emplace_back((*value_)[i], file_, fmt::format("{}/{}", pointer_, i), nesting_);
  }
  return result;
}

std::string Component::text() const {
  if (!value_->is_string()) fail("expected a string");
  return value_->get<std::string>();
}

bool Component::boolean() const {
  if (!value_->is_boolean()) fail("expected true or false");
  return value_->get<bool>();
}

size_t Component::integer(size_t limit) const {
  if (!value_->is_number_unsigned() || value_->get<uint64_t>() > limit) {
    fail(fmt::format("expected an integer from 0 to {}", limit));
  }
  return value_->get<size_t>();
}

char32_t Component::character() const {
  const std::string value = text();
  size_t position = 0;
  if (value.empty()) fail("expected one character, got an empty string");
  const char32_t result = next_code_point(value, position);
  if (position != value.size()) fail(fmt::format("expected one character, got '{}'", value));
  return result;
}

bool Component::boolean_or(std::string_view name, bool fallback) const {
  return has(name) ? at(name).boolean() : fallback;
}

void Component::fail(std::string_view message, std::string_view code) const {
  throw FileError(code, file_, pointer_, message);
}

void Component::fail_unknown(std::string_view what,
                             std::string_view name,
                             std::span<const std::string_view> supported) const {
  fail(fmt::format("{} '{}' is not supported{}; supported: {}",
                   what,
                   name,
                   did_you_mean(name, supported),
                   fmt::join(supported, ", ")));
}

}  // namespace reprise::tokenizer
