#include <cstring>
#include <string>

#include "reprise/base/error.h"
#include "reprise/weights/config/model_config.h"
#include "reprise/weights/gguf/gguf_config.h"
#include "reprise/weights/gguf/gguf_tokenizer.h"
#include "reprise/weights/gguf/header.h"
#include "reprise/weights/gguf/tensor_names.h"
#include "tests/fuzz/targets.h"

namespace reprise::fuzz {

namespace {

// Reads the configuration, and the names that the tensors have for models.
void read_config(const weights::gguf::Header& header) {
  namespace gguf = weights::gguf;
  gguf::GgufConfigTraits traits{.vocab_size = 1, .num_token_types = 1};
  for (const gguf::TensorInfo& tensor : header.tensors) {
    traits.tensors.insert(std::string(gguf::name_in_layer(tensor.name)));
  }
  const std::string json = gguf::config_json(header.metadata, traits).dump();
  const weights::ModelConfig config = weights::parse_model_config(json, "f").config;
  const weights::DecoderTensors names = weights::decoder_tensors(config);
  for (const gguf::TensorInfo& tensor : header.tensors) {
    const auto name = gguf::checkpoint_name(tensor.name, config, names);
    require(!name || !name->name.empty(), "a tensor of the model has a name");
    require(gguf::num_interleaved_heads(tensor.name, config) >= 0, "heads are counted");
    static_cast<void>(gguf::find_expert_matrices(tensor.name, names));
    static_cast<void>(gguf::value_change(tensor.name, config));
  }
}

}  // namespace

void gguf(std::string_view input) {
  namespace gguf = weights::gguf;
  const auto read_at = [&](uint64_t offset, std::span<std::byte> dst) {
    require(offset <= input.size() && dst.size() <= input.size() - offset,
            "a header is read only inside the file");
    std::memcpy(dst.data(), input.data() + offset, dst.size());
  };
  try {
    const gguf::Header header = gguf::read_header(read_at, input.size(), "f");
    for (const gguf::TensorInfo& tensor : header.tensors) {
      require(tensor.begin <= input.size() && tensor.bytes <= input.size() - tensor.begin,
              "an accepted tensor lies inside the file");
    }
    try {
      read_config(header);
    } catch (const FileError&) {
      // The metadata is refused with a named error, as intended.
    }
    static_cast<void>(gguf::tokenizer_json(header.metadata));
  } catch (const FileError&) {
    // The file is refused with a named error, as intended.
  }
}

}  // namespace reprise::fuzz
