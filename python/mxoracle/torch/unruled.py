"""Operators of torch of which a part is a product, and that the judge has no rule for: nothing passes with them."""

WITHOUT_A_RULE = (
    # fused with more, or of matrices in other types
    "_native_multi_head_attention", "_transformer_encoder_layer_fwd", "mkldnn_linear", "mkldnn_rnn_layer",
    "_cudnn_rnn", "_addmm_activation", "addmm_", "addmv", "addmv_", "addbmm", "addbmm_", "baddbmm",
    "baddbmm_", "_linear_pointwise", "_trilinear", "_int_mm", "_sparse_mm", "_sparse_addmm",
    "sparse_sampled_addmm", "_weight_int8pack_mm", "_weight_int4pack_mm", "linear_dynamic",
    "_euclidean_dist", "_cdist_forward", "_cudnn_rnn_backward", "mkldnn_rnn_layer_backward",
    "miopen_rnn", "miopen_rnn_backward", "mkldnn_linear_backward", "linear_backward", "matmul_backward",
    "_cslt_sparse_mm", "_sparse_semi_structured_linear", "_sparse_semi_structured_mm",
    "_sparse_semi_structured_addmm", "_sparse_mm_reduce_impl", "_sparse_sparse_matmul",
    "_mixed_dtypes_linear", "_dyn_quant_matmul_4bit", "_weight_int4pack_mm_for_cpu",
    "_weight_int4pack_mm_with_scales_and_zeros", "_wrapped_quantized_linear_prepacked",
    "fbgemm_linear_fp16_weight", "fbgemm_linear_fp16_weight_fp32_activation", "fbgemm_linear_int8_weight",
    "fbgemm_linear_int8_weight_fp32_activation", "_triton_multi_head_attention",
    "_triton_scaled_dot_attention",
    # convolutions by another name than `convolution`
    "_convolution", "convolution_overrideable", "convolution_backward_overrideable", "mkldnn_convolution",
    "cudnn_convolution", "cudnn_convolution_transpose", "cudnn_convolution_relu",
    "cudnn_convolution_add_relu", "miopen_convolution", "_slow_conv2d_forward", "_slow_conv2d_backward",
    "slow_conv3d_forward", "slow_conv_transpose2d", "slow_conv_transpose3d", "slow_conv_dilated2d",
    "slow_conv_dilated3d", "_conv_depthwise2d", "conv_depthwise3d", "_convolution_pointwise", "conv_tbc",
    "conv_tbc_backward", "_convolution_double_backward", "_nnpack_spatial_convolution", "thnn_conv2d",
    "miopen_convolution_add_relu", "miopen_convolution_relu", "miopen_convolution_transpose",
    "miopen_depthwise_convolution",
    # attention by its parts, and its gradients
    "_flash_attention_forward", "_efficient_attention_forward", "_cudnn_attention_forward",
    "_flash_attention_backward", "_efficient_attention_backward", "_cudnn_attention_backward",
    "_scaled_dot_product_flash_attention_backward", "_scaled_dot_product_flash_attention_for_cpu_backward",
    "_scaled_dot_product_efficient_attention_backward", "_scaled_dot_product_cudnn_attention_backward",
    "_scaled_dot_product_fused_attention_overrideable_backward",
    # linear algebra
    "_linalg_solve_ex", "linalg_inv_ex", "linalg_cholesky_ex", "linalg_lstsq", "linalg_pinv", "linalg_qr",
    "_linalg_svd", "_linalg_eigh", "_linalg_eigvals", "linalg_eig", "linalg_solve_triangular",
    "triangular_solve", "linalg_matrix_exp", "_linalg_det", "_linalg_slogdet", "cholesky", "cholesky_solve",
    "cholesky_inverse", "linalg_lu_factor_ex", "linalg_lu", "linalg_lu_solve", "linalg_ldl_factor_ex",
    "linalg_ldl_solve", "geqrf", "ormqr", "linalg_householder_product", "_spsolve",
)  # fmt: skip
