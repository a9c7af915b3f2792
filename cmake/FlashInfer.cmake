# Finds FlashInfer's headers for the CUDA plug-in. Sets FLASHINFER_INCLUDE_DIRS, which is empty if there are none. This file
# downloads nothing: scripts/setup.sh does.
set(REPRISE_DOWNLOADS ${PROJECT_SOURCE_DIR}/build/downloads CACHE PATH "Where scripts/setup.sh puts source archives")
# A list of folders is separated by semicolons.
set(REPRISE_FLASHINFER AUTO CACHE STRING "FlashInfer's attention kernels: AUTO (if scripts/setup.sh has downloaded them), OFF, or the include folders of FlashInfer, CUTLASS and CCCL")
set(FLASHINFER_INCLUDE_DIRS "")

function(find_downloaded_flashinfer)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/flashinfer.txt)
  file(STRINGS ${CMAKE_CURRENT_FUNCTION_LIST_DIR}/flashinfer.txt pin REGEX "^flashinfer-python==")
  string(REGEX MATCH "^flashinfer-python==([0-9a-z.]+) --hash=sha256:([0-9a-f]+)$" pin "${pin}")
  set(version ${CMAKE_MATCH_1})
  set(hash ${CMAKE_MATCH_2})
  set(wheel ${REPRISE_DOWNLOADS}/flashinfer_python-${version}-py3-none-any.whl)
  if(NOT EXISTS ${wheel})
    message(STATUS "FlashInfer's attention kernels: left out; scripts/setup.sh downloads flashinfer-python ${version}")
    return()
  endif()
  set(source ${CMAKE_BINARY_DIR}/third_party/flashinfer-${version})
  set(stamp ${source}/unpacked.sha256)
  if(NOT EXISTS ${stamp})
    file(SHA256 ${wheel} found_hash)
    if(NOT found_hash STREQUAL hash)
      message(FATAL_ERROR "${wheel} has the SHA-256 ${found_hash}, expected ${hash}. Remove the file and run scripts/setup.sh again.")
    endif()
    file(REMOVE_RECURSE ${source})
    # The files keep the dates of the wheel, so unpacking them again compiles nothing again.
    file(ARCHIVE_EXTRACT INPUT ${wheel} DESTINATION ${source}
         PATTERNS flashinfer/data/include/* flashinfer/data/cutlass/include/* flashinfer/data/cccl/libcudacxx/include/*
                  flashinfer_python-*/licenses/*)
    file(WRITE ${stamp} ${hash})
  endif()
  set(data ${source}/flashinfer/data)
  set(FLASHINFER_INCLUDE_DIRS ${data}/include ${data}/cutlass/include ${data}/cccl/libcudacxx/include PARENT_SCOPE)
endfunction()

# Folders that were configured before there was AUTO remember an empty value.
if(REPRISE_FLASHINFER STREQUAL "AUTO" OR REPRISE_FLASHINFER STREQUAL "")
  find_downloaded_flashinfer()
elseif(REPRISE_FLASHINFER)
  set(FLASHINFER_INCLUDE_DIRS ${REPRISE_FLASHINFER})
endif()
