#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "reprise/base/json.h"

namespace reprise::structured_output {

/// The numbers of a JSON schema, as decimals without leading zeros: from `low` to `high`, multiples
/// of `step`. All three are integers in units of 10^-num_decimals, so the conditions are exact:
/// after each accepted digit some number can still follow.
class NumberLeaf {
 public:
  /// \param type "integer" or "number"
  /// \throws InvalidArgument when a keyword is malformed or no number is left
  NumberLeaf(std::string_view type, const Json& schema);

  /// The part of a number that is written.
  struct State {
    enum class Place : uint8_t {
      start,
      sign,
      whole,
      point,
      fraction,
      exponent,
      exponent_sign,
      power
    };
    Place place = Place::start;
    bool is_negative = false;
    uint8_t num_whole = 0;  // digits
    uint8_t num_fraction = 0;
    uint8_t num_power = 0;
    uint64_t whole = 0;
    uint64_t fraction = 0;

    friend bool operator==(const State&, const State&) = default;
  };

  /// Takes one byte. \return false if no number continues with it; `at` is then undefined
  [[nodiscard]] bool take_byte(State& at, uint8_t byte) const;
  [[nodiscard]] bool may_end(const State& at) const;
  /// The number of different numbers; nothing: more than `most`.
  [[nodiscard]] std::optional<size_t> num_values(size_t most) const;

 private:
  using Units = __int128;
  struct Decimal;
  struct Bounds;

  void choose_digits(const Bounds& bounds, const std::optional<Decimal>& step);
  void read_bounds(const Json& schema, std::string_view type);
  [[nodiscard]] bool is_possible(const State& at) const;
  [[nodiscard]] bool has_number(Units first, Units last) const;
  [[nodiscard]] bool has_next_digit(const State& at) const;
  [[nodiscard]] bool take_digit(State& at, uint64_t digit) const;
  [[nodiscard]] bool passes_as_double(const State& at) const;

  bool is_integer_ = false;
  bool is_bounded_ = true;  // false: every number of JSON, within limits on its digits
  int num_decimals_ = 0;
  int max_whole_digits_ = 18;
  Units low_ = 0;
  Units high_ = 0;
  Units step_ = 1;
  std::optional<double> multiple_;  // of a decimal `multipleOf`
};

}  // namespace reprise::structured_output
