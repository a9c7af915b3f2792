#include "reprise/compile/codegen/llvm/vector_builder.h"

#include <llvm/IR/Constants.h>
#include <llvm/IR/Intrinsics.h>
#include <llvm/IR/IntrinsicsX86.h>

#include <bit>
#include <numeric>

#include "reprise/compile/codegen/codegen_target.h"

namespace reprise::compile {
namespace {

using kernels::Isa;
using llvm::Value;

llvm::Align alignment_of(DType dtype) { return llvm::Align(dtype_bytes(dtype)); }

}  // namespace

VectorBuilder::VectorBuilder(llvm::IRBuilder<>& ir, Isa isa, bool rounds_to_bfloat16)
    : ir_(ir),
      isa_(isa),
      rounds_to_bfloat16_(rounds_to_bfloat16),
      lanes_(lanes_of(isa)),
      floats_(llvm::FixedVectorType::get(ir.getFloatTy(), static_cast<unsigned>(lanes_))),
      ints_(llvm::FixedVectorType::get(ir.getInt32Ty(), static_cast<unsigned>(lanes_))),
      shorts_(llvm::FixedVectorType::get(ir.getInt16Ty(), static_cast<unsigned>(lanes_))) {}

llvm::Type* VectorBuilder::element_type(DType dtype) const {
  return dtype == DType::f32 ? ir_.getFloatTy() : static_cast<llvm::Type*>(ir_.getInt16Ty());
}

// ---- constants and casts

Value* VectorBuilder::broadcast(float value) const {
  return llvm::ConstantFP::get(floats_, static_cast<double>(value));
}
Value* VectorBuilder::ints(uint32_t value) const { return llvm::ConstantInt::get(ints_, value); }
Value* VectorBuilder::as_ints(Value* floats) { return ir_.CreateBitCast(floats, ints_); }
Value* VectorBuilder::as_floats(Value* ints) { return ir_.CreateBitCast(ints, floats_); }

Value* VectorBuilder::constant_mask(int elements) const {
  llvm::SmallVector<llvm::Constant*, 16> bits;
  for (int lane = 0; lane < lanes_; ++lane) bits.push_back(ir_.getInt1(lane < elements));
  return llvm::ConstantVector::get(bits);
}

// ---- memory

Tile VectorBuilder::load(Value* pointer, DType dtype, const Span& span) {
  Tile tile{.count = span.elements > lanes_ ? 2 : 1};
  if (tile.count == 1) {
    tile.vectors[0] = load_vector(pointer, dtype, span.elements);
    return tile;
  }
  if (span.layout == Layout::even_odd && dtype == DType::bf16) {
    Value* pairs = ir_.CreateAlignedLoad(ints_, pointer, alignment_of(dtype));
    tile.vectors = {as_floats(ir_.CreateShl(pairs, 16)),
                    as_floats(ir_.CreateAnd(pairs, ints(0xffff0000U)))};
    return tile;
  }
  Value* second =
      ir_.CreateConstInBoundsGEP1_64(element_type(dtype), pointer, static_cast<uint64_t>(lanes_));
  tile.vectors = {load_vector(pointer, dtype, lanes_), load_vector(second, dtype, lanes_)};
  if (span.layout == Layout::even_odd) tile.vectors = to_even_odd(tile.vectors);
  return tile;
}

void VectorBuilder::store(Value* pointer, DType dtype, const Tile& tile, const Span& span) {
  if (tile.count == 1) return store_vector(pointer, dtype, tile.vectors[0], span.elements);
  if (span.layout == Layout::even_odd && dtype == DType::bf16) {
    Value* even = ir_.CreateLShr(as_ints(tile.vectors[0]), 16);
    Value* odd = ir_.CreateAnd(as_ints(tile.vectors[1]), ints(0xffff0000U));
    ir_.CreateAlignedStore(ir_.CreateOr(even, odd), pointer, alignment_of(dtype));
    return;
  }
  const auto vectors = to_natural(tile.vectors, span.layout);
  Value* second =
      ir_.CreateConstInBoundsGEP1_64(element_type(dtype), pointer, static_cast<uint64_t>(lanes_));
  store_vector(pointer, dtype, vectors[0], lanes_);
  store_vector(second, dtype, vectors[1], lanes_);
}

Value* VectorBuilder::load_vector(Value* pointer, DType dtype, int elements) {
  llvm::Type* type = dtype == DType::f32 ? floats_ : shorts_;
  Value* loaded = nullptr;
  if (elements == lanes_) {
    loaded = ir_.CreateAlignedLoad(type, pointer, alignment_of(dtype));
  } else {
    loaded = ir_.CreateMaskedLoad(type,
                                  pointer,
                                  alignment_of(dtype),
                                  constant_mask(elements),
                                  llvm::Constant::getNullValue(type));
  }
  Value* widened = widen(loaded, dtype);
  return rounds_to_bfloat16_ && dtype != DType::bf16 ? shorten_nans(widened) : widened;
}

void VectorBuilder::store_vector(Value* pointer, DType dtype, Value* vector, int elements) {
  Value* narrowed = narrow(vector, dtype);
  if (elements == lanes_) {
    ir_.CreateAlignedStore(narrowed, pointer, alignment_of(dtype));
  } else {
    ir_.CreateMaskedStore(narrowed, pointer, alignment_of(dtype), constant_mask(elements));
  }
}

std::array<Value*, 2> VectorBuilder::to_natural(const std::array<Value*, 2>& vectors,
                                                Layout layout) {
  if (layout == Layout::natural) return vectors;
  llvm::SmallVector<int, 16> first, second;
  for (int lane = 0; lane < lanes_; ++lane) {
    const int from = lane / 2 + (lane % 2) * lanes_;
    first.push_back(from);
    second.push_back(from + lanes_ / 2);
  }
  return {ir_.CreateShuffleVector(vectors[0], vectors[1], first),
          ir_.CreateShuffleVector(vectors[0], vectors[1], second)};
}

std::array<Value*, 2> VectorBuilder::to_even_odd(const std::array<Value*, 2>& vectors) {
  llvm::SmallVector<int, 16> even, odd;
  for (int lane = 0; lane < lanes_; ++lane) {
    even.push_back(2 * lane);
    odd.push_back(2 * lane + 1);
  }
  return {ir_.CreateShuffleVector(vectors[0], vectors[1], even),
          ir_.CreateShuffleVector(vectors[0], vectors[1], odd)};
}

// ---- element types

Value* VectorBuilder::widen(Value* elements, DType dtype) {
  if (dtype == DType::f32) return elements;
  if (dtype == DType::bf16) {
    return as_floats(ir_.CreateShl(ir_.CreateZExt(elements, ints_), 16));
  }
  if (isa_ == Isa::scalar) return widen_half_in_integers(ir_.CreateZExt(elements, ints_));
  auto* halves = llvm::FixedVectorType::get(ir_.getHalfTy(), static_cast<unsigned>(lanes_));
  return ir_.CreateFPExt(ir_.CreateBitCast(elements, halves), floats_);
}

Value* VectorBuilder::narrow(Value* vector, DType dtype) {
  if (dtype == DType::f32) return vector;
  if (dtype == DType::bf16) return ir_.CreateTrunc(ir_.CreateLShr(as_ints(vector), 16), shorts_);
  if (isa_ == Isa::scalar) return ir_.CreateTrunc(narrow_half_in_integers(vector), shorts_);
  auto* halves = llvm::FixedVectorType::get(ir_.getHalfTy(), static_cast<unsigned>(lanes_));
  return ir_.CreateBitCast(ir_.CreateFPTrunc(vector, halves), shorts_);
}

Tile VectorBuilder::round(const Tile& tile, DType dtype) {
  if (dtype == DType::f32) return tile;
  return map(
      [&](Value* vector) {
        return dtype == DType::bf16 ? round_bfloat16(vector) : widen(narrow(vector, dtype), dtype);
      },
      tile);
}

// Rounds to nearest even. shorten_nans() has set the low 16 bits of every NaN to zero, so the
// addition has no carry and a NaN stays as it is. narrow_bf16 of the kernels uses a select for
// that.
Value* VectorBuilder::round_bfloat16(Value* vector) {
  Value* bits = as_ints(vector);
  Value* lowest = ir_.CreateAnd(ir_.CreateLShr(bits, 16), ints(1));
  Value* sum = ir_.CreateAdd(bits, ir_.CreateAdd(lowest, ints(0x7fff)));
  return as_floats(ir_.CreateAnd(sum, ints(0xffff0000U)));
}

// An instruction that returns a NaN either copies the bits of an operand or returns 0xffc00000. So
// if this function clears the low 16 bits of all NaNs from memory, no NaN has other low bits.
Value* VectorBuilder::shorten_nans(Value* vector) {
  Value* nan = as_floats(ints(0x7fc00000));
  return ir_.CreateSelect(ir_.CreateFCmpUNO(vector, vector), nan, vector);
}

// The same operations as to_float(Float16) in base/element.h.
Value* VectorBuilder::widen_half_in_integers(Value* bits) {
  Value* sign = ir_.CreateShl(ir_.CreateAnd(bits, ints(0x8000)), 16);
  Value* magnitude = ir_.CreateAnd(bits, ints(0x7fff));
  Value* shifted = ir_.CreateShl(magnitude, 13);
  Value* normal = ir_.CreateAdd(shifted, ints((127U - 15U) << 23));
  Value* special = ir_.CreateOr(shifted, ints(0x7f800000));
  Value* subnormal =
      as_ints(ir_.CreateFMul(ir_.CreateSIToFP(magnitude, floats_), broadcast(0x1p-24F)));
  Value* is_subnormal = ir_.CreateICmpSLT(magnitude, ints(0x0400));
  Value* finite = ir_.CreateSelect(is_subnormal, subnormal, normal);
  Value* is_finite = ir_.CreateICmpSLT(magnitude, ints(0x7c00));
  return as_floats(ir_.CreateOr(sign, ir_.CreateSelect(is_finite, finite, special)));
}

// The same operations as store_element(Float16*) in base/element.h.
Value* VectorBuilder::narrow_half_in_integers(Value* vector) {
  Value* bits = as_ints(vector);
  Value* sign = ir_.CreateAnd(ir_.CreateLShr(bits, 16), ints(0x8000));
  Value* magnitude = ir_.CreateAnd(bits, ints(0x7fffffff));
  Value* high = ir_.CreateLShr(magnitude, 13);
  Value* rebased = ir_.CreateAdd(ir_.CreateSub(magnitude, ints((127U - 15U) << 23)), ints(0x0fff));
  Value* normal = ir_.CreateLShr(ir_.CreateAdd(rebased, ir_.CreateAnd(high, ints(1))), 13);
  Value* subnormal = ir_.CreateSub(as_ints(ir_.CreateFAdd(as_floats(magnitude), broadcast(0.5F))),
                                   ints(std::bit_cast<uint32_t>(0.5F)));
  Value* nan = ir_.CreateOr(ir_.CreateAnd(high, ints(0x03ff)), ints(0x7e00));
  Value* is_subnormal = ir_.CreateICmpSLT(magnitude, ints(0x38800000));
  Value* finite = ir_.CreateSelect(is_subnormal, subnormal, normal);
  Value* is_large = ir_.CreateICmpSGE(magnitude, ints(0x477ff000));
  Value* bounded = ir_.CreateSelect(is_large, ints(0x7c00), finite);
  Value* is_nan = ir_.CreateICmpSGT(magnitude, ints(0x7f800000));
  return ir_.CreateOr(sign, ir_.CreateSelect(is_nan, nan, bounded));
}

// ---- arithmetic

Value* VectorBuilder::fma(Value* a, Value* b, Value* c) {
  // The baseline instruction set has no fused multiply-add, so this rounds twice, as in
  // portable.inl.
  if (isa_ == Isa::scalar) return ir_.CreateFAdd(ir_.CreateFMul(a, b), c);
  return ir_.CreateIntrinsic(llvm::Intrinsic::fma, {floats_}, {a, b, c});
}

Value* VectorBuilder::round_to_integer(Value* x) {
  if (isa_ == Isa::scalar) {
    Value* magic = broadcast(0x1.8p23F);
    return ir_.CreateFSub(ir_.CreateFAdd(x, magic), magic);
  }
  return ir_.CreateUnaryIntrinsic(llvm::Intrinsic::roundeven, x);
}

Value* VectorBuilder::scale_by_power_of_two(Value* x, Value* n) {
  if (lanes_ == 16) {
    constexpr int kCurrentRounding = 4;
    return ir_.CreateIntrinsic(
        llvm::Intrinsic::x86_avx512_mask_scalef_ps_512,
        {},
        {x, n, broadcast(0), ir_.getInt16(0xffff), ir_.getInt32(kCurrentRounding)});
  }
  // For LLVM, converting a NaN is undefined, so use the instruction itself, which defines the
  // result.
  const auto convert = isa_ == Isa::scalar ? llvm::Intrinsic::x86_sse2_cvttps2dq
                                           : llvm::Intrinsic::x86_avx_cvt_ps2dq_256;
  Value* exponent = ir_.CreateIntrinsic(convert, {}, {n});
  Value* half = ir_.CreateAShr(exponent, 1);
  Value* rest = ir_.CreateSub(exponent, half);
  const auto power = [&](Value* e) {
    return as_floats(ir_.CreateShl(ir_.CreateAdd(e, ints(127)), 23));
  };
  return ir_.CreateFMul(ir_.CreateFMul(x, power(half)), power(rest));
}

// The same operations as in kernels/vector/exp.inl, in the same order.
Value* VectorBuilder::exp(Value* x) {
  const auto maximum = [&](Value* a, Value* b) {
    return ir_.CreateSelect(ir_.CreateFCmpOGT(a, b), a, b);
  };
  const auto minimum = [&](Value* a, Value* b) {
    return ir_.CreateSelect(ir_.CreateFCmpOLT(a, b), a, b);
  };
  x = maximum(broadcast(-104.0F), x);
  x = minimum(broadcast(89.0F), x);
  Value* n = round_to_integer(ir_.CreateFMul(x, broadcast(1.44269504088896341F)));
  Value* r = fma(n, broadcast(-0.693359375F), x);
  r = fma(n, broadcast(2.12194440e-4F), r);
  Value* p = broadcast(1.9875691500e-4F);
  for (const float coefficient :
       {1.3981999507e-3F, 8.3334519073e-3F, 4.1665795894e-2F, 1.6666665459e-1F, 5.0000001201e-1F}) {
    p = fma(p, r, broadcast(coefficient));
  }
  p = fma(ir_.CreateFMul(r, r), p, r);
  return scale_by_power_of_two(ir_.CreateFAdd(p, broadcast(1.0F)), n);
}

Value* VectorBuilder::silu(Value* x) {
  Value* e = exp(ir_.CreateFSub(broadcast(0), x));
  return ir_.CreateFDiv(x, ir_.CreateFAdd(broadcast(1.0F), e));
}

Value* VectorBuilder::sum(Value* vector) {
  llvm::SmallVector<int, 16> low(static_cast<size_t>(lanes_)), high;
  for (int width = lanes_ / 2; width >= 2; width /= 2) {
    low.resize(static_cast<size_t>(width));
    std::iota(low.begin(), low.end(), 0);
    high.resize(static_cast<size_t>(width));
    std::iota(high.begin(), high.end(), width);
    vector =
        ir_.CreateFAdd(ir_.CreateShuffleVector(vector, low), ir_.CreateShuffleVector(vector, high));
  }
  return ir_.CreateFAdd(ir_.CreateExtractElement(vector, uint64_t{0}),
                        ir_.CreateExtractElement(vector, uint64_t{1}));
}

}  // namespace reprise::compile
