#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "reprise/base/json.h"

/// PEFT adapters of tests, as files.
namespace reprise::testing {

/// A float32 matrix of a safetensors file.
struct AdapterMatrix {
  int64_t rows = 0;
  int64_t columns = 0;
  std::vector<float> values;

  [[nodiscard]] float at(int64_t row, int64_t column) const {
    return values.at(static_cast<size_t>(row * columns + column));
  }
};

/// The files of one adapter. Change `config` and `tensors`, then call write().
class AdapterFiles {
 public:
  explicit AdapterFiles(int64_t rank = 4, double alpha = 8)
      : config({{"peft_type", "LORA"}, {"r", rank}, {"lora_alpha", alpha}, {"bias", "none"}}) {}

  /// Adds random matrices A and B for a module such as "model.layers.0.mlp.up_proj".
  AdapterFiles& add_module(const std::string& module, int64_t out, int64_t in, uint32_t seed) {
    std::mt19937 random(seed);
    const auto rank = config.at("r").get<int64_t>();
    tensors["base_model.model." + module + ".lora_A.weight"] = random_matrix(rank, in, random);
    tensors["base_model.model." + module + ".lora_B.weight"] = random_matrix(out, rank, random);
    return *this;
  }

  /// Writes both files to `folder` and returns it.
  [[nodiscard]] std::filesystem::path write(const std::filesystem::path& folder) const {
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "adapter_config.json") << config.dump();
    Json header = Json::object();
    std::string data;
    for (const auto& [name, matrix] : tensors) {
      const size_t begin = data.size();
      data.append(reinterpret_cast<const char*>(matrix.values.data()),
                  matrix.values.size() * sizeof(float));
      header[name] = {{"dtype", "F32"},
                      {"shape", {matrix.rows, matrix.columns}},
                      {"data_offsets", {begin, data.size()}}};
    }
    const std::string text = header.dump();
    const uint64_t length = text.size();
    std::ofstream file(folder / "adapter_model.safetensors", std::ios::binary);
    file.write(reinterpret_cast<const char*>(&length), sizeof length);
    file << text << data;
    return folder;
  }

  /// lora_alpha / r: the factor of B * A.
  [[nodiscard]] double scale() const {
    return config.at("lora_alpha").get<double>() / config.at("r").get<double>();
  }

  Json config;
  std::map<std::string, AdapterMatrix> tensors;

 private:
  static AdapterMatrix random_matrix(int64_t rows, int64_t columns, std::mt19937& random) {
    std::normal_distribution<float> normal(0, 0.2F);
    AdapterMatrix matrix{rows, columns, {}};
    for (int64_t i = 0; i < rows * columns; ++i) matrix.values.push_back(normal(random));
    return matrix;
  }
};

}  // namespace reprise::testing
