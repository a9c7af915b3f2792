# `cmake --install build/release --prefix FOLDER`: the program, its plug-ins, and the libraries that an engine
# embeds, for `find_package(Reprise)`. Included after all folders.
include(CMakePackageConfigHelpers)
set(package_folder lib/cmake/Reprise)

if(TARGET reprise)
  install(TARGETS reprise RUNTIME DESTINATION bin COMPONENT program)
endif()
# The program looks for its plug-ins in its own folder and in ../lib.
foreach(plugin reprise_codegen_llvm reprise_cuda reprise_mpi)
  if(TARGET ${plugin})
    install(TARGETS ${plugin} LIBRARY DESTINATION lib COMPONENT program)
  endif()
endforeach()

# The C interface, where the target reprise_c was built.
if(TARGET reprise_c)
  install(TARGETS reprise_c LIBRARY DESTINATION lib COMPONENT c OPTIONAL)
  install(FILES src/reprise/c/reprise.h DESTINATION include COMPONENT c)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/reprise.pc.in ${PROJECT_BINARY_DIR}/reprise.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/reprise.pc DESTINATION lib/pkgconfig COMPONENT c)
endif()

# reprise_add_installed(TARGET) installs the library and all libraries of this project that it links.
set(installed "")
function(reprise_add_installed target)
  if(target IN_LIST installed)
    return()
  endif()
  list(APPEND installed ${target})
  foreach(property LINK_LIBRARIES INTERFACE_LINK_LIBRARIES)
    get_target_property(linked ${target} ${property})
    foreach(library ${linked})
      if(library MATCHES "^reprise_|^xgrammar$" AND TARGET ${library})
        reprise_add_installed(${library})
      endif()
    endforeach()
  endforeach()
  set(installed ${installed} PARENT_SCOPE)
endfunction()
foreach(root reprise_cudagraph reprise_config reprise_api)
  if(TARGET ${root})
    reprise_add_installed(${root})
  endif()
endforeach()
foreach(target ${installed})
  string(REGEX REPLACE "^reprise_" "" name ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name})
endforeach()
if(NOT installed)
  return()  # a build of some folders, without the libraries that engines embed
endif()
install(TARGETS ${installed} EXPORT RepriseTargets ARCHIVE DESTINATION lib COMPONENT libraries)
install(EXPORT RepriseTargets NAMESPACE Reprise:: DESTINATION ${package_folder} COMPONENT libraries)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/src/reprise DESTINATION include COMPONENT libraries
        FILES_MATCHING PATTERN "*.h" PATTERN "*.inl" PATTERN "cli" EXCLUDE PATTERN "c" EXCLUDE PATTERN "bench" EXCLUDE
        PATTERN "server" EXCLUDE PATTERN "python" EXCLUDE PATTERN "llvm" EXCLUDE)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/RepriseConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_SOURCE_DIR}/cmake/RepriseConfig.cmake ${PROJECT_SOURCE_DIR}/cmake/FindLibrary.cmake
              ${PROJECT_BINARY_DIR}/RepriseConfigVersion.cmake
        DESTINATION ${package_folder} COMPONENT libraries)
