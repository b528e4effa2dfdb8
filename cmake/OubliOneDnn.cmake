# oneDNN as the target DNNL::dnnl. Debian's dnnl-config.cmake asks for OpenCL headers that its own
# CPU use does not need, so the library is looked for directly. Shared with the installed package.
if(NOT TARGET DNNL::dnnl)
  find_path(OUBLI_DNNL_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
  find_library(OUBLI_DNNL_LIBRARY dnnl)
  if(NOT OUBLI_DNNL_INCLUDE_DIR OR NOT OUBLI_DNNL_LIBRARY)
    message(FATAL_ERROR "oneDNN not found: install libdnnl-dev")
  endif()
  add_library(DNNL::dnnl UNKNOWN IMPORTED)
  set_target_properties(DNNL::dnnl PROPERTIES IMPORTED_LOCATION ${OUBLI_DNNL_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${OUBLI_DNNL_INCLUDE_DIR})
endif()
