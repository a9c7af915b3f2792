#include "reprise/kernels/isa.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <set>
#include <string>

#include "reprise/base/error.h"
#include "reprise/kernels/kernel_table.h"

namespace reprise::kernels {
namespace {

TEST(Isa, names_read_back) {
  for (Isa isa : {Isa::amx_software,
                  Isa::scalar,
                  Isa::avx2,
                  Isa::avx512,
                  Isa::avx512_vnni,
                  Isa::avx512_bf16,
                  Isa::amx}) {
    EXPECT_EQ(parse_isa(isa_name(isa)), isa);
  }
  EXPECT_EQ(parse_isa("sse9"), std::nullopt);
  EXPECT_EQ(parse_isa(""), std::nullopt);
}

TEST(Isa, an_old_cpu_gets_the_scalar_kernels) {
  EXPECT_EQ(best_isa({}), Isa::scalar);
  EXPECT_EQ(supported_isas({}), std::vector<Isa>{Isa::scalar});
  EXPECT_TRUE(is_supported(Isa::amx_software, {}));
}

#if defined(__x86_64__)
TEST(Isa, every_needed_feature_counts) {
  device::CpuFeatures features = {.avx = true, .avx2 = true, .fma = true};
  EXPECT_EQ(best_isa(features), Isa::scalar);
  features.f16c = true;
  EXPECT_EQ(best_isa(features), Isa::avx2);
  features.avx512f = features.avx512bw = features.avx512vl = true;
  EXPECT_EQ(best_isa(features), Isa::avx2);
  features.avx512dq = true;
  EXPECT_EQ(best_isa(features), Isa::avx512);
  features.avx512_bf16 = true;
  EXPECT_EQ(best_isa(features), Isa::avx512);
  features.avx512_bf16 = false;
  features.avx512_vnni = true;
  EXPECT_EQ(best_isa(features), Isa::avx512_vnni);
  features.avx512_bf16 = true;
  EXPECT_EQ(best_isa(features), Isa::avx512_bf16);
  features.has_slow_bf16_pairs = true;
  EXPECT_EQ(best_isa(features), Isa::avx512_vnni);
  EXPECT_TRUE(is_supported(Isa::avx512_bf16, features));
  features.has_slow_bf16_pairs = false;
  features.amx_tile = features.amx_bf16 = true;
  EXPECT_EQ(best_isa(features), Isa::avx512_bf16);
  features.amx_int8 = true;
  EXPECT_EQ(best_isa(features), Isa::amx);
  features.has_slow_bf16_pairs = true;
  EXPECT_EQ(best_isa(features), Isa::amx);
  features.avx2 = false;
  EXPECT_EQ(best_isa(features), Isa::scalar);
}

TEST(Isa, says_why_it_is_not_supported) {
  device::CpuFeatures features = {.avx2 = true, .fma = true, .f16c = true};
  EXPECT_EQ(why_unsupported(Isa::avx2, features), "");
  EXPECT_EQ(why_unsupported(Isa::avx512, features),
            "the CPU lacks avx512f avx512bw avx512vl avx512dq");
  features.amx_refusal = EPERM;
  EXPECT_EQ(why_unsupported(Isa::amx, features),
            "Linux refuses AMX tiles to this process (Operation not permitted)");
}
#endif

TEST(KernelTable, names_each_kernel_once) {
  std::set<std::string> names;
  size_t count = 0;
  for (Isa isa : supported_isas(device::detect_cpu_features())) {
    const KernelTable& table = kernel_table(isa);
    EXPECT_EQ(table.isa, isa);
    // The others have most kernels of one of these under their names.
    if (isa != Isa::scalar && isa != Isa::avx2 && isa != Isa::avx512) continue;
    for (const FloatKernels* kernels : {&table.rms_norm,
                                        &table.add,
                                        &table.fused_add_rms_norm,
                                        &table.silu_and_mul,
                                        &table.linear,
                                        &table.lm_head,
                                        &table.rope,
                                        &table.attention,
                                        &table.linear_add,
                                        &table.linear_silu_and_mul,
                                        &table.rope_kv_write,
                                        &table.linear_rope_kv_write}) {
      for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
        names.insert(kernel_for(*kernels, dtype).name);
        ++count;
      }
    }
    for (const QuantKernels* kernels : {&table.quantize_per_token,
                                        &table.quantize_static,
                                        &table.rms_norm_quant,
                                        &table.fused_add_rms_norm_quant,
                                        &table.silu_and_mul_quant,
                                        &table.scaled_linear}) {
      for (DType eight_bits : {DType::i8, DType::f8e4m3}) {
        for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
          names.insert(kernel_for(*kernels, eight_bits, dtype).name);
          ++count;
        }
      }
    }
    for (const device::Kernel* kernel :
         {&table.gather_rows, &table.panel_embedding, &table.kv_write}) {
      names.insert(kernel->name);
      ++count;
    }
  }
  EXPECT_EQ(names.size(), count);
  EXPECT_TRUE(names.contains("linear_bf16_scalar"));
}

// Whether `table` has a kernel of its own for each product, and all other kernels of `base`.
void expect_own_products(const KernelTable& table, const KernelTable& base) {
  for (const auto kernels : {&KernelTable::linear,
                             &KernelTable::lm_head,
                             &KernelTable::linear_add,
                             &KernelTable::linear_silu_and_mul,
                             &KernelTable::linear_rope_kv_write,
                             &KernelTable::int8_linear,
                             &KernelTable::block_linear,
                             &KernelTable::block_expert_linear,
                             &KernelTable::expert_linear,
                             &KernelTable::head_linear,
                             &KernelTable::lora_shrink,
                             &KernelTable::attention,
                             &KernelTable::uniform_attention,
                             &KernelTable::split_attention,
                             &KernelTable::shared_prefix,
                             &KernelTable::planned_attention,
                             &KernelTable::sparse_attention}) {
    EXPECT_NE((table.*kernels).bf16.cpu, (base.*kernels).bf16.cpu) << (table.*kernels).bf16.name;
    EXPECT_STRNE((table.*kernels).bf16.name, (base.*kernels).bf16.name);
  }
  for (const auto kernels : {&KernelTable::rms_norm,
                             &KernelTable::rope_kv_write,
                             &KernelTable::merge_attention,
                             &KernelTable::selective_state_update}) {
    EXPECT_EQ((table.*kernels).f32.cpu, (base.*kernels).f32.cpu) << (table.*kernels).f32.name;
  }
  EXPECT_EQ(table.gather_rows.cpu, base.gather_rows.cpu);
}

TEST(KernelTable, sets_that_multiply_in_their_own_way_share_all_other_kernels) {
  expect_own_products(kernel_table(Isa::amx_software), kernel_table(Isa::scalar));
#if defined(__x86_64__)
  const KernelTable& plain = kernel_table(Isa::avx512);
  expect_own_products(kernel_table(Isa::avx512_bf16), plain);
  expect_own_products(kernel_table(Isa::amx), plain);
  const KernelTable& vnni = kernel_table(Isa::avx512_vnni);
  EXPECT_STREQ(vnni.block_linear.bf16.name, "block_linear_bf16_avx512_vnni");
  EXPECT_NE(vnni.int8_linear.f32.cpu, plain.int8_linear.f32.cpu);
  EXPECT_EQ(vnni.attention.bf16.cpu, plain.attention.bf16.cpu);
  EXPECT_EQ(vnni.linear.bf16.cpu, plain.linear.bf16.cpu);
#endif
}

TEST(KernelTable, refuses_a_type_without_kernels) {
  EXPECT_THROW((void)kernel_for(kernel_table(Isa::scalar).add, DType::i32), InvalidArgument);
  const QuantKernels& quantize = kernel_table(Isa::scalar).quantize_static;
  EXPECT_THROW((void)kernel_for(quantize, DType::u8, DType::f32), InvalidArgument);
  EXPECT_THROW((void)kernel_for(quantize, DType::i8, DType::i32), InvalidArgument);
}

}  // namespace
}  // namespace reprise::kernels
