#include "tests/support/fake_cuda/nvrtc_api_fixture.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <stdexcept>
#include <vector>

#include "reprise/compile/codegen/nvrtc/nvrtc_compiler.h"
#include "tests/support/source_dir.h"

namespace reprise::compile {
namespace {

namespace fs = std::filesystem;

constexpr int kFailure = 6;  // NVRTC_ERROR_COMPILATION

struct FakeProgram {
  std::string source;
  std::string image;
};

struct State {
  uint64_t num_calls = 0;
  uint64_t failing_call = 0;
  uint64_t num_opened = 0;
  uint64_t num_compilations = 0;
  std::map<void*, std::unique_ptr<FakeProgram>> programs;
};
State* fake = nullptr;

bool fails() { return ++fake->num_calls == fake->failing_call; }

int version(int* major, int* minor) {
  if (fails()) return kFailure;
  return std::sscanf(nvrtc_build_version().data(), "%d.%d", major, minor) == 2 ? 0 : kFailure;
}
const char* error_string(int) { return "NVRTC_ERROR_COMPILATION"; }
int create(
    void** program, const char* source, const char*, int, const char* const*, const char* const*) {
  if (fails()) return kFailure;
  auto made = std::make_unique<FakeProgram>(FakeProgram{source, {}});
  *program = made.get();
  fake->programs.emplace(*program, std::move(made));
  return 0;
}
int destroy(void** program) {
  const bool failed = fails();
  fake->programs.erase(*program);
  *program = nullptr;
  return failed ? kFailure : 0;
}
int compile_program(void* program, int, const char* const*) {
  if (fails()) return kFailure;
  ++fake->num_compilations;
  FakeProgram& made = *fake->programs.at(program);
  made.image = compile_on_host(made.source);
  return made.image.empty() ? kFailure : 0;
}
int log_size(void*, size_t* bytes) {
  *bytes = 1;
  return fails() ? kFailure : 0;
}
int log(void*, char* text) {
  *text = '\0';
  return fails() ? kFailure : 0;
}
int cubin_size(void* program, size_t* bytes) {
  *bytes = fake->programs.at(program)->image.size();
  return fails() ? kFailure : 0;
}
int cubin(void* program, char* bytes) {
  if (fails()) return kFailure;
  const std::string& image = fake->programs.at(program)->image;
  image.copy(bytes, image.size());
  return 0;
}

bool run(std::vector<std::string> words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  pid_t pid = 0;
  int status = -1;
  return posix_spawn(&pid, pointers[0], nullptr, nullptr, pointers.data(), environ) == 0 &&
         waitpid(pid, &status, 0) == pid && status == 0;
}

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

std::string compile_on_host(const std::string& source) {
  static std::map<std::string, std::string> known;
  if (const auto found = known.find(source); found != known.end()) return found->second;
  const fs::path folder =
      fs::temp_directory_path() / fmt::format("reprise_cuda_source_{}", getpid());
  fs::create_directories(folder);
  const fs::path file = folder / "row_groups.cpp";
  const fs::path object = folder / "row_groups.so";
  std::ofstream(file) << source;
  const bool is_compiled = run({REPRISE_HOST_COMPILER,
                                "-std=c++20",
                                "-O1",
                                "-ffp-contract=off",
                                "-fPIC",
                                "-shared",
                                "-I" + source_dir() + "/src",
                                "-I" + source_dir(),
                                "-DREPRISE_HOST_BLOCK_HEADER=\"tests/support/fake_cuda/"
                                "host_block_fixture.h\"",
                                file.string(),
                                "-o",
                                object.string()});
  const std::string image = is_compiled ? read(object) : std::string();
  fs::remove_all(folder);
  return known.emplace(source, image).first->second;
}

FakeNvrtc::FakeNvrtc() {
  if (fake != nullptr) throw std::logic_error("there is a FakeNvrtc already");
  fake = new State;
}
FakeNvrtc::~FakeNvrtc() {
  delete fake;
  fake = nullptr;
}

LoadedNvrtc FakeNvrtc::open() {
  ++fake->num_opened;
  return {.api = {.version = version,
                  .error_string = error_string,
                  .create = create,
                  .destroy = destroy,
                  .compile = compile_program,
                  .log_size = log_size,
                  .log = log,
                  .cubin_size = cubin_size,
                  .cubin = cubin},
          .reason = {}};
}
void FakeNvrtc::fail_call(uint64_t k) {
  fake->num_calls = 0;
  fake->failing_call = k;
}
uint64_t FakeNvrtc::num_calls() const noexcept { return fake->num_calls; }
bool FakeNvrtc::has_failed() const noexcept {
  return fake->failing_call != 0 && fake->num_calls >= fake->failing_call;
}
uint64_t FakeNvrtc::num_opened() const noexcept { return fake->num_opened; }
uint64_t FakeNvrtc::num_compilations() const noexcept { return fake->num_compilations; }
uint64_t FakeNvrtc::num_programs() const noexcept { return fake->programs.size(); }

}  // namespace reprise::compile
