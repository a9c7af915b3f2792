#pragma once

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

}  // namespace reprise::kernels
