#include "reprise/tensor/shape.h"

#include <fmt/ranges.h>

namespace reprise {

std::string Shape::to_string() const { return fmt::format("[{}]", fmt::join(sizes(), ", ")); }

}  // namespace reprise
