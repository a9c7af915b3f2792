# Builds the kernels and their tests for aarch64 with Debian's cross compiler, and runs them under QEMU.
# scripts/test_aarch64.sh uses it.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -L /usr/aarch64-linux-gnu)
# The libraries of this machine are for another processor. Those that the kernels need consist of
# headers or come as source, and the files beside this one find them.
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_PACKAGE_PREFER_CONFIG ON)
foreach(package fmt nlohmann_json GTest)
  set(${package}_DIR ${CMAKE_CURRENT_LIST_DIR})
endforeach()
