#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "reprise/structured_output/output_spec.h"
#include "reprise/structured_output/token_bytes.h"
#include "reprise/structured_output/token_constraint.h"
#include "reprise/structured_output/work_limit.h"

namespace reprise::structured_output {

/// A compiled spec that can constrain answers. Immutable; any number of threads may start answers.
class CompiledSpec {
 public:
  virtual ~CompiledSpec() = default;
  [[nodiscard]] virtual std::unique_ptr<TokenConstraint> start() const = 0;
  /// Memory of the compiled spec. It grows, up to a limit of the backend, while answers reach new
  /// states of the grammar. Thread-safe.
  [[nodiscard]] virtual size_t memory_bytes() const = 0;
};

/// Turns specs into CompiledSpecs for one vocabulary. Thread-safe.
class GrammarBackend {
 public:
  virtual ~GrammarBackend() = default;
  /// Compiles a spec, which may take long: see GrammarCompiler. Counts the work in `limit`. \throws
  /// InvalidArgument if the spec is malformed or too large, or if nothing can satisfy it \throws
  /// WorkLimitReached
  [[nodiscard]] virtual std::shared_ptr<const CompiledSpec> compile(const OutputSpec& spec,
                                                                    WorkLimit& limit) = 0;
};

/// The backend for specs of all kinds.
[[nodiscard]] std::unique_ptr<GrammarBackend> create_grammar_backend(VocabularyBytes vocabulary);

}  // namespace reprise::structured_output
