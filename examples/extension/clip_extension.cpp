// Three things of your own in an engine: an op, a pass that puts the op into every model, and a
// compiler. `embed.cpp` adds them to an engine inside a program of yours, `plugin.cpp` makes a
// plug-in of them for `reprise serve --extension FILE`.
#include "extension/clip_extension.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reprise/compile/codegen/plugin.h"
#include "reprise/compile/passes/program_edit.h"
#include "reprise/tensor/custom_op.h"

namespace example {
namespace {

using namespace reprise;
using compile::CodegenError;
using compile::CompilerInterface;

// ---- The op: numbers outside of [-limit, limit] become the limit. ----

// The kernel of the op. One block is one row. The arguments are copied when a launch is recorded.
struct alignas(16) ClipArguments {
  const void* x;
  void* out;
  int64_t width;
  float limit;
  bool is_float;  // else bfloat16
};
float as_float(uint16_t bfloat16) { return std::bit_cast<float>(uint32_t{bfloat16} << 16); }
void clip_rows(const void* arguments, device::BlockRange blocks) noexcept {
  const auto& a = *static_cast<const ClipArguments*>(arguments);
  const int64_t end = static_cast<int64_t>(blocks.end) * a.width;
  for (int64_t i = static_cast<int64_t>(blocks.begin) * a.width; i < end; ++i) {
    if (a.is_float) {
      static_cast<float*>(a.out)[i] =
          std::clamp(static_cast<const float*>(a.x)[i], -a.limit, a.limit);
    } else {  // the limits are bfloat16 numbers, so no result is rounded
      const float x = as_float(static_cast<const uint16_t*>(a.x)[i]);
      const auto bits = std::bit_cast<uint32_t>(std::clamp(x, -a.limit, a.limit));
      static_cast<uint16_t*>(a.out)[i] = static_cast<uint16_t>(bits >> 16);
    }
  }
}
constexpr device::Kernel kClipKernel{"clip", clip_rows};

CustomOp clip_op(std::string name, float limit) {
  CustomOp op{.name = std::move(name), .num_inputs = 1};
  op.infer_types = [](std::span<const Tensor> in, std::span<TensorType> out) {
    out[0] = in[0].type();
    if (out[0].dtype != DType::f32 && out[0].dtype != DType::bf16) {
      throw ShapeError("clip: expected float32 or bfloat16; run the model with --dtype bfloat16");
    }
  };
  op.launch_cpu =
      [limit](device::Stream& stream, std::span<const Tensor> in, std::span<const Tensor> out) {
        const ClipArguments arguments{.x = in[0].data(),
                                      .out = out[0].data(),
                                      .width = in[0].size(1),
                                      .limit = limit,
                                      .is_float = in[0].dtype() == DType::f32};
        const device::BufferUse uses[] = {
            {in[0].data(), in[0].type().bytes(), device::BufferUse::Access::read},
            {out[0].data(), out[0].type().bytes(), device::BufferUse::Access::write}};
        stream.launch({.kernel = &kClipKernel,
                       .num_blocks = static_cast<uint32_t>(in[0].size(0)),
                       .args = std::as_bytes(std::span(&arguments, 1)),
                       .uses = uses});
      };
  return op;
}

// ---- The pass: every sum of a residual goes through the op. ----

size_t clip_residuals(program::Program& program, const CustomOp& clip) {
  compile::ProgramEdit edit(program);
  size_t num_clips = 0;
  const size_t num_nodes = program.nodes.size();
  for (size_t i = 0; i < num_nodes; ++i) {
    program::Node& node = edit.visit(i);
    if (node.op != OpCode::add) continue;
    // The sum becomes a new value, which the op reads. The op defines the value that the sum
    // defined before, so no user of the sum has to change.
    const program::ValueId clipped = node.outputs[0];
    const program::ValueId sum = edit.add_value(program.type(clipped));
    node.outputs[0] = sum;
    program::Node call{.op = OpCode::custom, .inputs = {sum}, .outputs = {clipped}};
    call.attributes.custom = &clip;
    edit.insert_before(i + 1, std::move(call));
    ++num_clips;
  }
  std::move(edit).finish();
  return num_clips;
}

// ---- The compiler: LLVM's objects in files of its own. ----

/// Keeps each object in a file and gives the engine the file's name, as vLLM's compilers do with
/// their handles. A compiler that generates code itself overrides the same functions.
class KeptFiles final : public CompilerInterface {
 public:
  explicit KeptFiles(std::unique_ptr<CompilerInterface> inner) : inner_(std::move(inner)) {}

  [[nodiscard]] std::string_view name() const noexcept override { return "kept_files"; }
  void initialize_cache(const std::filesystem::path& directory) override { folder_ = directory; }
  [[nodiscard]] std::string compute_hash() const override {
    return "kept_files 1 over " + inner_->compute_hash();
  }
  [[nodiscard]] std::optional<std::string> why_not(const program::Program& body) const override {
    return inner_->why_not(body);
  }
  [[nodiscard]] std::vector<std::byte> compile(
      std::span<const compile::RowGroupSource> sources) override {
    std::vector<std::byte> object = inner_->compile(sources);
    if (folder_.empty()) return object;  // there is no cache: the bytes are the handle
    const std::string name = "object_" + std::to_string(fingerprint(object));
    std::filesystem::create_directories(folder_);
    std::ofstream file(folder_ / name, std::ios::binary);
    file.write(reinterpret_cast<const char*>(object.data()),
               static_cast<std::streamsize>(object.size()));
    if (!file.flush()) throw CodegenError("kept_files: cannot write " + (folder_ / name).string());
    const std::span<const std::byte> handle = std::as_bytes(std::span(name));
    return {handle.begin(), handle.end()};
  }
  [[nodiscard]] std::unique_ptr<device::LoadedCode> load(
      std::span<const std::byte> handle,
      std::span<const std::string> functions,
      const device::CodeLoader& device_loader) override {
    if (folder_.empty()) return device_loader.load(handle, functions);
    const std::string name(reinterpret_cast<const char*>(handle.data()), handle.size());
    std::ifstream file(folder_ / name, std::ios::binary);
    const std::string bytes(std::istreambuf_iterator<char>(file), {});
    if (bytes.empty()) {
      throw device::CodeLoadError("kept_files: cannot read " + (folder_ / name).string());
    }
    return device_loader.load(std::as_bytes(std::span(bytes)), functions);
  }
  [[nodiscard]] compile::CodegenListing list(
      std::span<const compile::RowGroupSource> sources) override {
    return inner_->list(sources);
  }

 private:
  // FNV-1a.
  static uint64_t fingerprint(std::span<const std::byte> bytes) {
    uint64_t hash = 0xcbf29ce484222325U;
    for (const std::byte byte : bytes) {
      hash = (hash ^ static_cast<uint64_t>(byte)) * 0x100000001b3U;
    }
    return hash;
  }

  std::unique_ptr<CompilerInterface> inner_;
  std::filesystem::path folder_;
};

std::unique_ptr<CompilerInterface> create_kept_files(std::string_view target) {
  const std::optional<kernels::Isa> isa = kernels::parse_isa(target);
  if (!isa) return nullptr;  // a GPU
  compile::CodegenPlugin llvm =
      compile::load_codegen_plugin(compile::default_codegen_plugin_paths(), *isa);
  if (llvm.compiler == nullptr) return nullptr;
  return std::make_unique<KeptFiles>(std::move(llvm.compiler));
}

}  // namespace

void add_clip_extension(compile::Extensions& extensions) {
  constexpr float kHarmless = 16384;  // no model that works reaches it
  constexpr float kHard = 0.25;       // changes every answer, so that a test can see the op
  for (const auto& [suffix, limit] : {std::pair{"", kHarmless}, std::pair{"_hard", kHard}}) {
    extensions.add_op(clip_op(std::string("example::clip") + suffix, limit));
    const CustomOp* clip = extensions.find_op(std::string("example::clip") + suffix);
    extensions.add_pass(
        {.name = std::string("clip_residuals") + suffix,
         .uuid = "1",
         .apply = [clip](program::Program& program) { return clip_residuals(program, *clip); }});
  }
  extensions.add_compiler({.name = "kept_files", .create = create_kept_files});
}

}  // namespace example
