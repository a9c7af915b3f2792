#include "reprise/speculative/make_drafter.h"

#include "reprise/speculative/ngram_drafter.h"
#include "reprise/speculative/suffix_drafter.h"

namespace reprise::speculative {

std::unique_ptr<Drafter> make_drafter(const SpeculativeConfig& config) {
  switch (config.method) {
    case SpeculativeMethod::ngram:
      return std::make_unique<NgramDrafter>(config.lookup);
    case SpeculativeMethod::suffix:
      return std::make_unique<SuffixDrafter>(config.suffix);
    case SpeculativeMethod::draft_model:
    case SpeculativeMethod::eagle:
    case SpeculativeMethod::eagle3:
    case SpeculativeMethod::mtp:
      break;
  }
  return nullptr;
}

}  // namespace reprise::speculative
