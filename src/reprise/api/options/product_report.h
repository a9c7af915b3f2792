#pragma once

#include <string>
#include <vector>

#include "reprise/kernels/product_table.h"

namespace reprise::api {

/// The kernels of matrix products that were chosen by measurement.
struct ProductReport {
  std::string file;                // where choices of this device are stored; empty: none are used
  kernels::ProductTable table;     // the choices in use
  kernels::ProductTable measured;  // those that this start has measured
  std::vector<std::string> left_out;  // stored choices that cannot be followed here, as sentences
  double seconds = 0;                 // for measuring
};

}  // namespace reprise::api
