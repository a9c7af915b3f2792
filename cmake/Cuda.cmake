# CUDA is optional: without nvcc the project builds and tests as if it did not exist.
#
#   reprise_cuda_image(TARGET t SOURCE a.cu SYMBOL name DEPENDS a.cuh ... [INCLUDES folder ...] [CONTRACTS]
#                      [ARCHITECTURES 90a ...])
#     compiles a.cu for REPRISE_CUDA_ARCHITECTURES, or only for the given ones and without PTX, and adds it to t as
#     `const unsigned char name[]`
set(REPRISE_CUDA AUTO CACHE STRING "Build the CUDA plug-in: AUTO (when nvcc is found), ON or OFF")
set_property(CACHE REPRISE_CUDA PROPERTY STRINGS AUTO ON OFF)
# Machine code is made for these architectures, and PTX of the first one for newer GPUs.
set(REPRISE_CUDA_ARCHITECTURES "80;90a" CACHE STRING "GPU architectures to compile for")

# nvcc then needs a third of its time, and the kernels spill registers: for builds whose kernels run on no GPU.
option(REPRISE_CUDA_FAST_COMPILE "Compile the kernels for GPUs with few optimisations" OFF)

set(REPRISE_HAS_CUDA FALSE)
if(NOT REPRISE_CUDA STREQUAL "OFF")
  # nvcc in the PATH or under CUDA_PATH; the compiler is run directly, so CMake's own check of it,
  # which takes seconds, is not needed.
  # CUDA 13 changed functions and names that are used (cuGraphGetEdges, enumerators of errors).
  find_package(CUDAToolkit QUIET)
  if(CUDAToolkit_FOUND AND CUDAToolkit_VERSION VERSION_LESS 13)
    set(cuda_is_old "the toolkit under ${CUDAToolkit_LIBRARY_ROOT} is CUDA ${CUDAToolkit_VERSION}, and CUDA 13 or newer is needed")
  endif()
  # Headers only: the libraries are opened at run time.
  find_path(REPRISE_CUBLASLT_INCLUDE_DIR cublasLt.h PATHS ${CUDAToolkit_INCLUDE_DIRS} NO_DEFAULT_PATH)
  mark_as_advanced(REPRISE_CUBLASLT_INCLUDE_DIR)
  if(CUDAToolkit_FOUND AND NOT cuda_is_old AND CUDAToolkit_NVCC_EXECUTABLE AND REPRISE_CUBLASLT_INCLUDE_DIR)
    set(REPRISE_HAS_CUDA TRUE)
    message(STATUS "CUDA ${CUDAToolkit_VERSION}: building the plug-in for sm ${REPRISE_CUDA_ARCHITECTURES}")
  elseif(REPRISE_CUDA STREQUAL "ON" AND cuda_is_old)
    message(FATAL_ERROR "REPRISE_CUDA is ON, but ${cuda_is_old}: put its nvcc into the PATH or set CUDA_PATH")
  elseif(REPRISE_CUDA STREQUAL "ON")
    message(FATAL_ERROR "REPRISE_CUDA is ON, but no CUDA 13 or newer toolkit with nvcc and cublasLt.h was found: put nvcc into the PATH or set CUDA_PATH")
  elseif(cuda_is_old)
    message(STATUS "No CUDA plug-in: ${cuda_is_old}")
  else()
    message(STATUS "No CUDA toolkit with nvcc and cublasLt.h: no CUDA plug-in")
  endif()
endif()

if(REPRISE_HAS_CUDA)
  # The program opens the toolkit's libraries (cuBLASLt, NVRTC) at run time, after it has tried the system's.
  list(APPEND CMAKE_BUILD_RPATH ${CUDAToolkit_LIBRARY_DIR})
  # Only the driver's header is needed: the driver is opened at run time.
  add_library(reprise_cuda_headers INTERFACE)
  target_include_directories(reprise_cuda_headers SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
  include(${CMAKE_CURRENT_LIST_DIR}/FlashInfer.cmake)
endif()

function(reprise_cuda_image)
  cmake_parse_arguments(ARG "CONTRACTS" "TARGET;SOURCE;SYMBOL" "DEPENDS;INCLUDES;ARCHITECTURES" ${ARGN})
  set(codes "")
  if(NOT ARG_ARCHITECTURES)
    set(ARG_ARCHITECTURES ${REPRISE_CUDA_ARCHITECTURES})
    list(GET REPRISE_CUDA_ARCHITECTURES 0 oldest)
    set(codes -gencode arch=compute_${oldest},code=compute_${oldest})
  endif()
  foreach(architecture ${ARG_ARCHITECTURES})
    list(APPEND codes -gencode arch=compute_${architecture},code=sm_${architecture})
  endforeach()
  set(image ${CMAKE_CURRENT_BINARY_DIR}/${ARG_SYMBOL}.fatbin)
  set(source ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_SOURCE})
  list(TRANSFORM ARG_INCLUDES PREPEND -I)
  # Without CONTRACTS, the compiler fuses a product and a sum only where a kernel calls fma, as on the CPU.
  set(fmad -fmad=false)
  if(ARG_CONTRACTS)
    set(fmad -fmad=true)
  endif()
  set(fast "")
  if(REPRISE_CUDA_FAST_COMPILE)
    set(fast --Ofast-compile=mid)
  endif()
  list(TRANSFORM ARG_DEPENDS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
  add_custom_command(
    OUTPUT ${image}
    COMMAND ${CUDAToolkit_NVCC_EXECUTABLE} -fatbin -O3 ${fast} -std=c++20 ${fmad} --expt-relaxed-constexpr
            --threads 2 -lineinfo -Xptxas -v -I${PROJECT_SOURCE_DIR}/src ${ARG_INCLUDES} ${codes} -o ${image} ${source}
            # The log has the registers and spills of every kernel, for a test. It is shown when the compiler fails.
            2> ${image}.log || awk "1; END { exit 1 }" ${image}.log
    DEPENDS ${source} ${ARG_DEPENDS}
    COMMENT "Compiling ${ARG_SOURCE} for sm ${ARG_ARCHITECTURES}"
    VERBATIM)
  set(holder ${CMAKE_CURRENT_BINARY_DIR}/${ARG_SYMBOL}.cpp)
  file(GENERATE OUTPUT ${holder} CONTENT
"asm(R\"(
.pushsection .rodata
.global ${ARG_SYMBOL}
.balign 64
${ARG_SYMBOL}:
.incbin \"${image}\"
.balign 64
.popsection
)\");
")
  set_source_files_properties(${holder} PROPERTIES OBJECT_DEPENDS ${image} GENERATED TRUE
                              SKIP_PRECOMPILE_HEADERS TRUE)
  target_sources(${ARG_TARGET} PRIVATE ${holder})
endfunction()
