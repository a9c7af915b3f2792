#pragma once

#include <nanobind/nanobind.h>

namespace reprise::python {

/// Each function adds its classes to the module `reprise._core`.
void bind_config(nanobind::module_& module);
void bind_engine(nanobind::module_& module);

}  // namespace reprise::python
