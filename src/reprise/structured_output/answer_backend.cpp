#include <mutex>
#include <utility>

#include "reprise/base/error.h"
#include "reprise/structured_output/answer_constraint.h"
#include "reprise/structured_output/ebnf_backend.h"
#include "reprise/structured_output/spec_compiler.h"

namespace reprise::structured_output {
namespace {

class AnswerBackend final : public GrammarBackend {
 public:
  explicit AnswerBackend(VocabularyBytes vocabulary)
      : shared_(std::make_shared<SharedMasks>(std::move(vocabulary))) {}

  std::shared_ptr<const CompiledSpec> compile(const OutputSpec& spec, WorkLimit& limit) override {
    check_spec(spec);
    if (spec.kind == OutputSpec::Kind::grammar) return ebnf().compile(spec, limit);
    const TextSettings settings{.limit = &limit,
                                .any_text = shared_->any_text,
                                .max_token_characters = shared_->tokens.max_characters()};
    return compiled_program(compile_spec(spec, settings), shared_);
  }

 private:
  GrammarBackend& ebnf() {
    const std::lock_guard lock(mutex_);
    if (!ebnf_) ebnf_ = create_ebnf_backend(shared_->tokens.vocabulary());
    return *ebnf_;
  }

  std::shared_ptr<SharedMasks> shared_;
  std::mutex mutex_;
  std::unique_ptr<GrammarBackend> ebnf_;  // made for the first grammar
};

}  // namespace

std::unique_ptr<GrammarBackend> create_grammar_backend(VocabularyBytes vocabulary) {
  return std::make_unique<AnswerBackend>(std::move(vocabulary));
}

}  // namespace reprise::structured_output
