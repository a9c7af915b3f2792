#include <nanobind/nanobind.h>

#include <exception>

#include "reprise/base/error.h"
#include "reprise/python/bindings.h"

namespace nb = nanobind;

NB_MODULE(_core, module) {
  module.doc() = "The engine under the package `reprise`; use that.";
  nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
    try {
      std::rethrow_exception(thrown);
    } catch (const reprise::InvalidArgument& error) {
      PyErr_SetString(PyExc_ValueError, error.what());
    } catch (const reprise::OutOfMemory& error) {
      PyErr_SetString(PyExc_MemoryError, error.what());
    } catch (const reprise::Error& error) {
      PyErr_SetString(PyExc_RuntimeError, error.what());
    }
  });
  reprise::python::bind_config(module);
  reprise::python::bind_engine(module);
}
