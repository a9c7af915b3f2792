#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "reprise/structured_output/grammar_backend.h"

namespace reprise::structured_output {

struct GrammarCompilerOptions {
  int num_threads = 2;
  std::chrono::milliseconds time_limit{2000};  // from submit to result
  size_t cache_bytes = size_t{256} << 20;
  size_t max_compiled_bytes = size_t{64} << 20;  // of one spec
  size_t max_waiting = 256;
};

/// What came of a spec: either is set.
struct CompileResult {
  std::shared_ptr<const CompiledSpec> compiled;
  std::string error;  // a sentence for whoever sent the spec
};

/// Compiles specs on threads of its own and keeps what was used last, up to a number of bytes.
///
/// Thread-safe. A thread cannot be taken out of a compilation: one that exceeds the time limit is
/// answered as an error when its time is up, and its thread is lost until it ends by itself, as are
/// all later requests that find no thread in time. normalise_spec keeps that from being within
/// anyone's reach. Destruction waits a moment for running compilations and then leaves them to the
/// end of the process.
class GrammarCompiler {
 public:
  using OnCompiled = std::function<void(const CompileResult&)>;

  /// `create` makes the backend, on a worker, when the first spec comes.
  GrammarCompiler(std::function<std::unique_ptr<GrammarBackend>()> create,
                  const GrammarCompilerOptions& options = {});
  GrammarCompiler(const GrammarCompiler&) = delete;
  GrammarCompiler& operator=(const GrammarCompiler&) = delete;
  /// What waits is answered with an error.
  ~GrammarCompiler();

  /// Calls back exactly once, on a thread of the compiler, or here when the result is known.
  /// `on_compiled` must not throw or block.
  void submit(const OutputSpec& spec, OnCompiled on_compiled);
  /// Waits. \throws InvalidArgument with the error
  [[nodiscard]] std::shared_ptr<const CompiledSpec> compile(const OutputSpec& spec);

  [[nodiscard]] size_t cached_bytes() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // with the workers, which may outlive this
};

}  // namespace reprise::structured_output
