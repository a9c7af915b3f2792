#include "reprise/compile/codegen/nvrtc/nvrtc_compiler.h"

#include <fmt/format.h>

#include <array>
#include <map>
#include <utility>

#include "reprise/compile/codegen/nvrtc/cuda_source.h"
#include "reprise/kernels/row_group/row_group_arguments.h"

namespace reprise::compile {
namespace {

// The options of the precompiled kernels: products and sums are not fused, subnormal numbers are
// kept, and divisions and square roots are exact.
constexpr std::array kOptions = {
    "--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true", "--prec-sqrt=true"};

class NvrtcCompiler final : public CompilerInterface {
 public:
  NvrtcCompiler(const NvrtcApi& api, std::string architecture)
      : api_(api), architecture_(std::move(architecture)) {
    int major = 0;
    int minor = 0;
    require(api_.version(&major, &minor), "nvrtcVersion");
    version_ = fmt::format("{}.{}", major, minor);
  }

  [[nodiscard]] std::string_view name() const noexcept override { return "nvrtc"; }
  [[nodiscard]] CodegenFileSuffixes suffixes() const noexcept override {
    return {.ir = ".cu", .assembly = ".ptx", .object = ".cubin"};
  }
  [[nodiscard]] std::string compute_hash() const override {
    return nvrtc_identity(version_, architecture_);
  }
  [[nodiscard]] std::optional<std::string> why_not(const program::Program& body) const override {
    return why_no_cuda_source(body);
  }
  [[nodiscard]] std::vector<std::byte> compile(std::span<const RowGroupSource> sources) override {
    std::string text = cuda_source(sources);
    if (const auto known = compiled_.find(text); known != compiled_.end()) return known->second;
    Program program(api_, text);
    std::vector<const char*> options(kOptions.begin(), kOptions.end());
    const std::string target = "--gpu-architecture=" + architecture_;
    options.push_back(target.c_str());
    const int result =
        api_.compile(program.handle(), static_cast<int>(options.size()), options.data());
    if (result != 0) {
      throw CodegenError(fmt::format(
          "NVRTC for {}: {}:\n{}", architecture_, api_.error_string(result), program.log()));
    }
    size_t bytes = 0;
    require(api_.cubin_size(program.handle(), &bytes), "nvrtcGetCUBINSize");
    std::vector<std::byte> cubin(bytes);
    require(api_.cubin(program.handle(), reinterpret_cast<char*>(cubin.data())), "nvrtcGetCUBIN");
    return compiled_.emplace(std::move(text), std::move(cubin)).first->second;
  }
  [[nodiscard]] CodegenListing list(std::span<const RowGroupSource> sources) override {
    return {.ir = cuda_source(sources), .assembly = {}};
  }

 private:
  /// Owns one of NVRTC's programs.
  class Program {
   public:
    Program(const NvrtcApi& api, const std::string& text) : api_(api) {
      const int result = api.create(&handle_, text.c_str(), "row_groups.cu", 0, nullptr, nullptr);
      if (result != 0)
        throw CodegenError(fmt::format("nvrtcCreateProgram: {}", api.error_string(result)));
    }
    Program(const Program&) = delete;
    Program& operator=(const Program&) = delete;
    ~Program() { (void)api_.destroy(&handle_); }

    [[nodiscard]] NvrtcApi::Program handle() const noexcept { return handle_; }
    [[nodiscard]] std::string log() const {
      size_t bytes = 0;
      if (api_.log_size(handle_, &bytes) != 0) return {};
      std::string text(bytes, '\0');
      if (api_.log(handle_, text.data()) != 0) return {};
      return text.c_str();  // without the terminating zero
    }

   private:
    const NvrtcApi& api_;
    NvrtcApi::Program handle_ = nullptr;
  };

  void require(int result, const char* call) const {
    if (result != 0) throw CodegenError(fmt::format("{}: {}", call, api_.error_string(result)));
  }

  NvrtcApi api_;
  std::string architecture_;
  std::string version_;
  std::map<std::string, std::vector<std::byte>>
      compiled_;  // token ranges often have equal groups, so results are reused
};

}  // namespace

std::unique_ptr<CompilerInterface> create_nvrtc_compiler(const NvrtcApi& api,
                                                         std::string architecture) {
  return std::make_unique<NvrtcCompiler>(api, std::move(architecture));
}

std::string nvrtc_identity(std::string_view version, std::string_view architecture) {
  return fmt::format("nvrtc {} codegen {} row_group {} {} {} exact_rounding",
                     version,
                     kCodegenAbi,
                     kernels::kRowGroupAbi,
                     architecture,
                     fmt::join(kOptions, " "));
}

std::string_view nvrtc_build_version() noexcept { return REPRISE_NVRTC_VERSION; }

}  // namespace reprise::compile
