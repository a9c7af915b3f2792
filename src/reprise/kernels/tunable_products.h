#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reprise/kernels/product_table.h"

namespace reprise::kernels {

/// The matrix products of an executor whose kernels can be chosen by measurement. Owned by its
/// executor, and used on the executor's thread.
///
/// Order of calls: use() for a table of an earlier start; then, to measure, watch(), a step, and
/// measure(), for as many steps as there are numbers of rows; then use() for the result. After the
/// first capture none of these may be called, so choices never change while graphs exist.
class TunableProducts {
 public:
  virtual ~TunableProducts() = default;

  /// Names the card, its driver, the library and the kernels of this build. Other times hold for
  /// any other identity, so a table of another one must not be used here.
  [[nodiscard]] virtual std::string identity() const = 0;
  /// Later launches follow this table. Choices that this executor cannot follow or may not follow
  /// are left out; each has a sentence in the result. \pre no graph was captured
  /// \throws DeviceError
  virtual std::vector<std::string> use(const ProductTable& table) = 0;

  /// From now on, the products that run are noted with their operands.
  virtual void watch() = 0;
  /// Stops watching. Times all candidates of the noted products that `table` lacks, on their own
  /// operands, adds a choice for each of them to `table`, and forgets them. A candidate that is not
  /// faster than the built-in rule by kLeastGain changes nothing.
  /// \throws DeviceError, OutOfMemory
  virtual void measure(ProductTable& table) = 0;

  /// The part of its time that a choice must save. Smaller differences come and go between runs,
  /// and would only change the last bits.
  static constexpr double kLeastGain = 0.03;
};

}  // namespace reprise::kernels
