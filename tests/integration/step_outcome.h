#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tests/integration/test_batch.h"
#include "tests/integration/tiny_engine.h"

/// The result of one step of a TinyEngine, for comparisons between modes, levels, backends and
/// devices.
namespace reprise::testing {

inline constexpr std::array kModes = {cudagraph::CudagraphMode::NONE,
                                      cudagraph::CudagraphMode::PIECEWISE,
                                      cudagraph::CudagraphMode::FULL,
                                      cudagraph::CudagraphMode::FULL_DECODE_ONLY,
                                      cudagraph::CudagraphMode::FULL_AND_PIECEWISE};
inline constexpr std::array kLevels = {config::CompilationMode::NONE,
                                       config::CompilationMode::STOCK_TORCH_COMPILE,
                                       config::CompilationMode::DYNAMO_TRACE_ONCE,
                                       config::CompilationMode::VLLM_COMPILE};
inline constexpr std::array kMixes = {Mix::prefill, Mix::uniform_decode, Mix::mixed, Mix::chunked};

/// The requested logits, and every byte of the cache.
struct Outcome {
  std::vector<float> logits;
  std::vector<std::byte> kv;
};

/// Runs the batch over a cache with these bytes. Afterwards the engine's logits are set to NaN, so
/// that a logit that the next step does not write becomes visible.
Outcome run(TinyEngine& engine,
            const TestBatch& batch,
            const cudagraph::Decision& decision,
            cudagraph::CudagraphRuntimeMode run_as,
            std::span<const std::byte> kv_before);
void expect_same_bits(const Outcome& expected, const Outcome& actual, const std::string& what);
/// The logits of `rounds` batches of each mix, with up to `num_tokens` tokens.
std::vector<float> run_mixes(TinyEngine& engine, int rounds, int32_t num_tokens, int32_t most_reqs);
/// |a - b| / |b|
double relative_distance(std::span<const float> a, std::span<const float> b);
/// Describes one case: "mixed of 9 tokens as FULL [...]".
std::string describe(Mix mix, int32_t num_tokens, const cudagraph::Decision& decision);

}  // namespace reprise::testing
