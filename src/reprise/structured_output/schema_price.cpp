#include "reprise/structured_output/schema_price.h"

#include <fmt/format.h>

#include <string_view>

#include "reprise/base/error.h"

namespace reprise::structured_output {
namespace {

struct Price {
  size_t constant_bytes = 0;
  size_t num_properties = 0;
};

void check(std::string_view what, size_t number, size_t most) {
  if (number <= most) return;
  throw InvalidArgument(fmt::format(
      "the JSON schema is too large: {} {}, at most {} are accepted", number, what, most));
}

void add_constants(const Json& values, Price& price) {
  for (const Json& value : values) {
    const size_t num_bytes = value.dump(-1, ' ', false, Json::error_handler_t::replace).size();
    check("bytes of one value of enum or const", num_bytes, kMaxOneConstantBytes);
    price.constant_bytes += num_bytes;
  }
  check("bytes of enum and const", price.constant_bytes, kMaxConstantBytes);
}

void add(const Json& schema, Price& price) {
  if (schema.is_array()) {
    for (const Json& item : schema) add(item, price);
  }
  if (!schema.is_object()) return;
  for (const auto& [name, value] : schema.items()) {
    if (name == "enum" && value.is_array()) {
      add_constants(value, price);
    } else if (name == "const") {
      add_constants(Json::array({value}), price);
    } else {
      if (name == "properties" && value.is_object()) price.num_properties += value.size();
      add(value, price);
    }
  }
  check("properties", price.num_properties, kMaxProperties);
}

}  // namespace

void check_price(const Json& schema) {
  Price price;
  add(schema, price);
}

}  // namespace reprise::structured_output
