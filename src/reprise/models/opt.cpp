#include "reprise/models/layers.h"

namespace reprise::models {

std::unique_ptr<DecoderLayer> make_opt_layer(const LayerParts& parts) {
  return parts.config.has_post_norms ? make_bert_layer(parts) : make_llama_layer(parts);
}

}  // namespace reprise::models
