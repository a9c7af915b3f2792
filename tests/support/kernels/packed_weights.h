#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "reprise/tensor/packed_weight.h"

/// Packed weights for tests of kernels.
namespace reprise::kernels {

[[nodiscard]] std::vector<PanelFormat> all_panel_formats();

/// Fills codes of all values, often the extremes, and scales of both signs with which elements have
/// a magnitude of about 0.1 or less times their code.
void fill_packed_weight(const Tensor& weight,
                        std::span<const PanelPart> parts,
                        std::mt19937& random);

/// Fills all codes with the bits of `byte`; scales stay.
void set_packed_codes(const Tensor& weight, std::span<const PanelPart> parts, uint8_t byte);

}  // namespace reprise::kernels
