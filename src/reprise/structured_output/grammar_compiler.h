#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "reprise/structured_output/grammar_backend.h"

namespace reprise::structured_output {

struct GrammarCompilerOptions {
  /// The number of threads. The first thread compiles the specs that needed more than quick_steps.
  /// The other threads never do, so such specs cannot delay other specs.
  int num_threads = 2;
  std::chrono::milliseconds time_limit{2000};  // of a processor, to be compiled
  /// The longest real time that a spec waits in a queue, and again that it takes to be compiled.
  /// The threads have a low priority: on a busy machine even the next spec waits, and a running one
  /// gets little processor time.
  std::chrono::milliseconds wait_limit{30'000};
  int64_t quick_steps = int64_t{1} << 20;  // steps (WorkLimit) of the first attempt
  int64_t max_steps = int64_t{1} << 24;    // steps of the second attempt
  size_t cache_bytes = size_t{256} << 20;
  size_t max_compiled_bytes = size_t{64} << 20;  // limit for one spec
  size_t max_waiting = 256;
  size_t max_waiting_per_client = 64;
};

/// The result for a spec: exactly one of `compiled` and `error` is set.
struct CompileResult {
  std::shared_ptr<const CompiledSpec> compiled;
  std::string error;     // a sentence for the sender of the spec
  bool is_busy = false;  // the spec is not at fault; its sender may try again
};

/// Compiles specs on its own threads and keeps the most recently used ones, up to a number of
/// bytes. The threads have a low priority. The next spec is one of the client for which the fewest
/// steps were done (ClientShares), so a client with many or expensive specs delays its own specs
/// and not those of others.
///
/// Thread-safe. A spec that needs more steps than a quick one is given up and compiled again by the
/// thread for such specs, up to the limit of steps or of processor time; then it is given up for
/// good, and the thread is free for the next spec. A spec that gets too little of a processor is
/// given up too, but it is not at fault: the server is busy. The backend counts its steps only in
/// the loops that are known to be long: normalise_spec() refuses the specs for which others would
/// be. Destruction waits a moment for running compilations and then leaves them to the end of the
/// process.
class GrammarCompiler {
 public:
  using OnCompiled = std::function<void(const CompileResult&)>;

  /// A worker calls `create` to make the backend when the first spec arrives.
  GrammarCompiler(std::function<std::unique_ptr<GrammarBackend>()> create,
                  const GrammarCompilerOptions& options = {});
  GrammarCompiler(const GrammarCompiler&) = delete;
  GrammarCompiler& operator=(const GrammarCompiler&) = delete;
  /// Answers all waiting specs with an error.
  ~GrammarCompiler();

  /// Calls `on_compiled` exactly once: on a thread of the compiler, or during this call if the
  /// result is known. `on_compiled` must not throw or block. `client` identifies the sender of the
  /// spec.
  void submit(const OutputSpec& spec, OnCompiled on_compiled, const std::string& client = {});
  /// Compiles and waits for the result. \throws InvalidArgument with the error
  [[nodiscard]] std::shared_ptr<const CompiledSpec> compile(const OutputSpec& spec);
  /// Drops the least recently used specs until the rest has at most `max_bytes` together.
  void shrink_cache(size_t max_bytes);
  /// Whether no spec is being compiled or waits for that. An abandoned spec may continue for a
  /// moment.
  [[nodiscard]] bool is_idle() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // shared with the workers, which may outlive this object
};

}  // namespace reprise::structured_output
