#include "reprise/program/cpu_code_loader.h"

#include <fmt/format.h>

#include <utility>

#include "reprise/program/object_code.h"

namespace reprise::program {
namespace {

class CpuCode final : public device::LoadedCode {
 public:
  CpuCode(std::span<const std::byte> object, std::span<const std::string> functions)
      : object_(ObjectCode::load(object)) {
    for (const std::string& function : functions) {
      if (find(function) == nullptr) {
        throw ObjectCodeError(fmt::format("object code: it has no '{}'", function));
      }
    }
  }
  [[nodiscard]] device::Kernel kernel(std::string_view function, const char* name) const override {
    return {.name = name, .cpu = find(function)};
  }

 private:
  [[nodiscard]] device::CpuKernelFunction find(std::string_view function) const noexcept {
    return object_.find<device::CpuKernelFunction>(function);
  }

  ObjectCode object_;
};

class CpuCodeLoader final : public device::CodeLoader {
 public:
  [[nodiscard]] std::unique_ptr<device::LoadedCode> load(
      std::span<const std::byte> object, std::span<const std::string> functions) const override {
    return std::make_unique<CpuCode>(object, functions);
  }
};

}  // namespace

const device::CodeLoader& cpu_code_loader() {
  static const CpuCodeLoader loader;
  return loader;
}

}  // namespace reprise::program
