#include "reprise/structured_output/number_leaf.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "reprise/base/error.h"
#include "reprise/structured_output/schema_merge.h"

namespace reprise::structured_output {
namespace {

// Decimals with this many digits and doubles correspond one to one.
constexpr int kMostDigits = 15;
constexpr int kUsualDecimals = 6;      // of numbers with bounds
constexpr int kUsualWholeDigits = 18;  // they fit 64 bits
constexpr int kMostWholeDigits = 19;
// For a number that is bounded on only one side: digits on the other side.
constexpr int kUnboundedWholeDigits = 9;
constexpr int kMostPowerDigits = 2;

__int128 power10(int exponent) {
  __int128 power = 1;
  for (int i = 0; i < exponent; ++i) power *= 10;
  return power;
}

[[noreturn]] void refuse_number(const std::string& what) { throw InvalidArgument(what); }

}  // namespace

/// A number of the schema: digits * 10^-num_decimals, exactly as the schema writes it.
struct NumberLeaf::Decimal {
  Units digits = 0;
  int num_decimals = 0;
  bool is_huge = false;  // beyond all numbers that are written

  static Decimal of(const Json& value, std::string_view name) {
    if (!value.is_number()) refuse_number(fmt::format("{} must be a number", name));
    std::string text =
        value.is_number_float() ? fmt::format("{}", value.get<double>()) : value.dump();
    Decimal read;
    int exponent = 0;
    if (const size_t e = text.find('e'); e != std::string::npos) {
      const char* const digits = text.c_str() + e + (text[e + 1] == '+' ? 2 : 1);
      std::from_chars(digits, text.c_str() + text.size(), exponent);
      text.resize(e);
    }
    const bool is_negative = text[0] == '-';
    bool is_fraction = false;
    for (const char c : text) {
      if (c == '.') is_fraction = true;
      if (c < '0' || c > '9') continue;
      read.digits = read.digits * 10 + (c - '0');
      if (is_fraction) ++read.num_decimals;
    }
    read.num_decimals -= exponent;
    while (read.num_decimals > 0 && read.digits % 10 == 0) {
      read.digits /= 10;
      --read.num_decimals;
    }
    if (read.digits == 0) read.num_decimals = 0;
    read.is_huge =
        read.num_decimals < -kMostWholeDigits || read.digits > power10(kMostWholeDigits + 1);
    for (; !read.is_huge && read.num_decimals < 0; ++read.num_decimals) {
      read.digits *= 10;
      read.is_huge = read.digits > power10(kMostWholeDigits + 1);
    }
    if (is_negative) read.digits = -read.digits;
    return read;
  }

  [[nodiscard]] int num_whole_digits() const {
    Units whole = digits < 0 ? -digits : digits;
    for (int i = 0; i < num_decimals && whole > 0; ++i) whole /= 10;
    int number = 0;
    for (; whole > 0; whole /= 10) ++number;
    return number;
  }

  /// The number in units of 10^-decimals, rounded down or up.
  [[nodiscard]] Units units(int decimals, bool rounds_up) const {
    if (decimals >= num_decimals) return digits * power10(decimals - num_decimals);
    if (num_decimals - decimals > 36)
      return digits > 0 && rounds_up ? 1 : digits < 0 && !rounds_up ? -1 : 0;
    const Units divisor = power10(num_decimals - decimals);
    Units whole = digits / divisor;
    if (digits % divisor != 0) {
      if (rounds_up && digits > 0) ++whole;
      if (!rounds_up && digits < 0) --whole;
    }
    return whole;
  }
};

NumberLeaf::NumberLeaf(std::string_view type, const Json& schema) : is_integer_(type == "integer") {
  const bool has_bounds =
      std::any_of(schema.items().begin(), schema.items().end(), [](const auto& item) {
        return item.key() == "minimum" || item.key() == "maximum" ||
               item.key() == "exclusiveMinimum" || item.key() == "exclusiveMaximum" ||
               item.key() == "multipleOf";
      });
  if (!is_integer_ && !has_bounds) {
    is_bounded_ = false;
    num_decimals_ = kMostDigits;
    max_whole_digits_ = kMostDigits;
    return;
  }
  read_bounds(schema, type);
}

struct NumberLeaf::Bounds {
  struct Bound {
    const char* name;
    bool is_low;
    bool is_open;
    Decimal value{};
  };
  std::vector<Bound> all;
  int num_whole_digits = 0;
  int num_decimals = kUsualDecimals;
  bool has_low = false;
  bool has_high = false;

  explicit Bounds(const Json& schema) {
    for (Bound bound : {Bound{"minimum", true, false},
                        Bound{"exclusiveMinimum", true, true},
                        Bound{"maximum", false, false},
                        Bound{"exclusiveMaximum", false, true}}) {
      const auto found = schema.find(bound.name);
      if (found == schema.end()) continue;
      bound.value = Decimal::of(*found, bound.name);
      if (bound.value.is_huge && bound.is_low != (bound.value.digits < 0)) {
        throw NothingIsValid(
            fmt::format("{} leaves no number of up to {} digits", bound.name, kMostWholeDigits));
      }
      if (bound.value.is_huge) continue;
      all.push_back(bound);
      num_whole_digits = std::max(num_whole_digits, bound.value.num_whole_digits());
      num_decimals = std::max(num_decimals, bound.value.num_decimals + (bound.is_open ? 1 : 0));
      (bound.is_low ? has_low : has_high) = true;
    }
  }
  [[nodiscard]] bool has_both() const { return has_low && has_high; }
};

void NumberLeaf::choose_digits(const Bounds& bounds, const std::optional<Decimal>& step) {
  const int more = bounds.has_both() ? 0 : 1;
  if (is_integer_) {
    max_whole_digits_ =
        std::clamp(bounds.num_whole_digits + more, kUsualWholeDigits, kMostWholeDigits);
    return;
  }
  const int least = bounds.has_both() ? 1 : kUnboundedWholeDigits;
  max_whole_digits_ = std::clamp(bounds.num_whole_digits + more, least, kMostWholeDigits);
  const int decimals = step ? step->num_decimals : bounds.num_decimals;
  num_decimals_ = std::clamp(decimals, 0, std::max(kMostDigits - max_whole_digits_, 0));
}

void NumberLeaf::read_bounds(const Json& schema, std::string_view type) {
  std::optional<Decimal> step;
  if (const auto found = schema.find("multipleOf"); found != schema.end()) {
    step = Decimal::of(*found, "multipleOf");
    if (step->digits <= 0) refuse_number("multipleOf must be above 0");
    if (step->is_huge) refuse_number("multipleOf is beyond the numbers that can be written");
    if (found->is_number_float()) multiple_ = found->get<double>();
  }
  const Bounds bounds(schema);
  choose_digits(bounds, step);
  high_ = power10(max_whole_digits_ + num_decimals_) - 1;
  low_ = -high_;
  for (const Bounds::Bound& bound : bounds.all) {
    Units units = bound.value.units(num_decimals_, bound.is_low);
    if (bound.is_open && bound.value.units(num_decimals_, !bound.is_low) == units) {
      units += bound.is_low ? 1 : -1;
    }
    if (bound.is_low) low_ = std::max(low_, units);
    if (!bound.is_low) high_ = std::min(high_, units);
  }
  if (step) {
    // An integer that is a multiple of 2.5 is a multiple of 5: this takes the least common
    // multiple.
    const int more = std::max(step->num_decimals - num_decimals_, 0);
    if (more > 18) refuse_number("multipleOf has too many decimals");
    step_ = step->units(num_decimals_ + more, false);
    for (int i = 0; i < more; ++i) {
      step_ /= step_ % 10 == 0 ? 10 : step_ % 5 == 0 ? 5 : step_ % 2 == 0 ? 2 : 1;
    }
  }
  if (!has_number(low_, high_)) {
    throw NothingIsValid(fmt::format(
        "no {} is within the bounds{}", type, step ? " and a multiple of multipleOf" : ""));
  }
}

bool NumberLeaf::has_number(Units first, Units last) const {
  first = std::max(first, low_);
  last = std::min(last, high_);
  if (first > last) return false;
  const Units remainder = last % step_;
  const Units below = last - (remainder < 0 ? remainder + step_ : remainder);
  return below >= first;
}

std::optional<size_t> NumberLeaf::num_values(size_t most) const {
  if (!is_bounded_) return {};
  const auto floor_of = [this](Units value) { return value / step_ - (value % step_ < 0 ? 1 : 0); };
  const Units number = floor_of(high_) - floor_of(low_ - 1);
  if (number > static_cast<Units>(most)) return {};
  return static_cast<size_t>(number);
}

bool NumberLeaf::has_next_digit(const State& at) const {
  for (uint64_t digit = 0; digit < 10; ++digit) {
    State next = at;
    if (take_digit(next, digit)) return true;
  }
  return false;
}

/// Whether some number begins with the digits written so far.
bool NumberLeaf::is_possible(const State& at) const {
  if (!is_bounded_) return true;
  const auto possible = [&](Units first, Units last) {
    if (!at.is_negative) return has_number(first, last);
    // "-0" is left out.
    return last > 0 && has_number(-last, -std::max<Units>(first, 1));
  };
  const Units unit = power10(num_decimals_);
  if (at.place == State::Place::whole) {
    const int more = at.whole == 0 ? 0 : max_whole_digits_ - at.num_whole;
    Units first = at.whole;
    Units last = at.whole;
    bool is_within = false;
    for (int i = 0; i <= more && !is_within; ++i) {
      is_within = possible(first * unit, last * unit + unit - 1);
      first = first * 10;
      last = last * 10 + 9;
    }
    if (!is_within || !multiple_ || num_decimals_ == 0) return is_within;
    // The number must also be valid when it is read as a double, so its decimals are tried.
    State point = at;
    point.place = State::Place::point;
    return may_end(at) || is_possible(point) || has_next_digit(at);
  }
  const Units missing = power10(num_decimals_ - at.num_fraction);
  const Units first =
      static_cast<Units>(at.whole) * unit + static_cast<Units>(at.fraction) * missing;
  if (at.place == State::Place::point || at.num_fraction < num_decimals_) {
    if (!possible(first, first + missing - 1)) return false;
    if (multiple_ && num_decimals_ - at.num_fraction <= 2) {
      // Only the last digits decide whether a number is valid, and not every digit is, so the next
      // digit is tried.
      return may_end(at) || has_next_digit(at);
    }
    return true;
  }
  return may_end(at);
}

bool NumberLeaf::passes_as_double(const State& at) const {
  if (!multiple_) return true;
  // Readers divide doubles: they compute 7.000000000000001 for 0.07 / 0.01.
  const std::string text =
      at.num_fraction == 0
          ? std::to_string(at.whole)
          : fmt::format("{}.{:0{}}", at.whole, at.fraction, static_cast<int>(at.num_fraction));
  const double quotient = std::strtod(text.c_str(), nullptr) / *multiple_;
  return std::floor(quotient) == quotient;
}

bool NumberLeaf::take_digit(State& at, uint64_t digit) const {
  using Place = State::Place;
  switch (at.place) {
    case Place::start:
    case Place::sign:
      at.place = Place::whole;
      at.whole = digit;
      at.num_whole = 1;
      return is_possible(at);
    case Place::whole:
      if (at.whole == 0 || at.num_whole >= max_whole_digits_) return false;
      at.whole = at.whole * 10 + digit;
      ++at.num_whole;
      return is_possible(at);
    case Place::point:
    case Place::fraction:
      if (at.num_fraction >= num_decimals_ ||
          (!is_bounded_ && at.num_fraction + at.num_whole >= kMostDigits + 1)) {
        return false;
      }
      at.place = Place::fraction;
      at.fraction = at.fraction * 10 + digit;
      ++at.num_fraction;
      return is_possible(at);
    case Place::exponent:
    case Place::exponent_sign:
    case Place::power:
      if (at.num_power >= kMostPowerDigits) return false;
      at.place = Place::power;
      ++at.num_power;
      return true;
  }
  return false;
}

bool NumberLeaf::take_byte(State& at, uint8_t byte) const {
  using Place = State::Place;
  if (byte >= '0' && byte <= '9') return take_digit(at, byte - uint64_t{'0'});
  if (byte == '-' && at.place == Place::start) {
    at.place = Place::sign;
    at.is_negative = true;
    return !is_bounded_ || has_number(low_, -1);
  }
  if (byte == '.' && at.place == Place::whole && !is_integer_ && num_decimals_ > 0) {
    at.place = Place::point;
    return is_possible(at);
  }
  if (is_bounded_) return false;
  if ((byte == 'e' || byte == 'E') && (at.place == Place::whole || at.place == Place::fraction)) {
    at.place = Place::exponent;
    return true;
  }
  if ((byte == '+' || byte == '-') && at.place == Place::exponent) {
    at.place = Place::exponent_sign;
    return true;
  }
  return false;
}

bool NumberLeaf::may_end(const State& at) const {
  using Place = State::Place;
  if (at.place == Place::power) return true;
  if (at.place != Place::whole && at.place != Place::fraction) return false;
  if (!is_bounded_) return true;
  const Units magnitude =
      static_cast<Units>(at.whole) * power10(num_decimals_) +
      static_cast<Units>(at.fraction) * power10(num_decimals_ - at.num_fraction);
  if (at.is_negative && magnitude == 0) return false;
  const Units value = at.is_negative ? -magnitude : magnitude;
  return has_number(value, value) && passes_as_double(at);
}

}  // namespace reprise::structured_output
