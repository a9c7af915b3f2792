#pragma once

#include <cstdint>

namespace reprise {

/// The ways in which the numbers of a weight are stored in memory. The codecs of one family share
/// kernels.
enum class WeightFamily : uint8_t {
  rows,           // the elements, row after row
  column_panels,  // the elements in the order of column_panels.h
  block_panels,   // codes in blocks of 32 elements, behind a header: block_panels.h
  int8_panels,    // codes of eight bits with one scale for each output: int8_panels.h
  float_panels,   // smaller floats with scales: float_panels.h
};

/// A codec of packed weights: codecs.h.
enum class PanelFormat : uint8_t;

}  // namespace reprise
